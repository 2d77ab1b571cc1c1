#!/usr/bin/env bash
# Checks the workflows, the scripts and the refusals of a release. tests/run runs this script and installs actionlint and
# ShellCheck. tests/release/publish.sh makes a release.
set -euo pipefail

cd -- "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/../.."
# shellcheck source=tests/release/copy.sh
source tests/release/copy.sh

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
url=https://github.com/example/global-dns
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tag=v$version

step() { echo "release: $*"; }
fail_release() { echo "release: $*" >&2 && exit 1; }

# === Workflows and scripts ===

actionlint -color=false .github/workflows/*.yml
step "actionlint accepts $(find .github/workflows -name '*.yml' | wc -l) workflows"

# Actions of other repositories are pinned by commit, with the version for readers. A tag can be moved.
used=$(grep -hE '^ *-? *uses:' .github/workflows/*.yml | grep -v 'uses: \./')
unpinned=$(grep -vE 'uses: [a-z-]+/[a-z/-]+@[0-9a-f]{40} # v[0-9.]+$' <<<"$used" || true)
[[ -z $unpinned ]] || fail_release "an action is not pinned by commit and version: $unpinned"
for workflow in .github/workflows/*.yml; do
    grep -qx 'permissions: {}' "$workflow" || fail_release "$workflow: jobs without permissions of their own have more than none"
done
step "$(wc -l <<<"$used") uses of actions are pinned by commit"

mapfile -t scripts < <(git grep -lI --untracked -e '^#!/usr/bin/env bash' -e '^# shellcheck shell=bash')
shellcheck --external-sources --source-path=. --source-path=SCRIPTDIR "${scripts[@]}"
step "ShellCheck accepts ${#scripts[@]} scripts"

# === Refusals ===

# Checks that a release is refused, and that the message has the text.
refused() { # TITLE TEXT TAG
    ! output=$("$copy/.github/release" check "$3" 2>&1) || fail_release "a release with $1 is not refused"
    [[ $output == *"$2"* ]] || fail_release "a release with $1 is refused without '$2': $output"
    step "refused: $1"
}

# Checks that a release that is ready, except for one change, is refused for this reason alone.
refused_after() { # TITLE TEXT COMMAND…
    (cd -- "$copy" && "${@:3}")
    commit_all "$copy"
    git -C "$copy" tag --force "$tag" >/dev/null
    refused "$1" "$2" "$tag"
    [[ $(wc -l <<<"$output") == 1 ]] || fail_release "a release with $1 is refused for other reasons, too: $output"
    git -C "$copy" reset --quiet --hard HEAD~1
    git -C "$copy" tag --force "$tag" >/dev/null
}

unset GITHUB_REPOSITORY GITHUB_SERVER_URL
copy=$work/copy
copy_repository "$copy"
git -C "$copy" tag "$tag"
refused "the placeholder" "run '.github/release name URL'" "$tag"
for file in Cargo.toml Dockerfile charts/global-dns/Chart.yaml .github/SECURITY.md; do
    [[ $output == *" $file:"* ]] || fail_release "the refusal does not name $file: $output"
done
! "$copy/.github/release" name example/global-dns 2>/dev/null || fail_release "'name' accepts what is no URL"

git -C "$copy" tag --delete "$tag" >/dev/null
make_ready "$copy" "$url" "$version"
"$copy/.github/release" check "$tag"
output=$("$copy/.github/release" notes)
[[ $(wc -l <<<"$output") -gt 10 ]] || fail_release "the release notes are empty: $output"
! grep '^## ' <<<"$output" || fail_release "the release notes have more than one version"

refused_after "an older chart" "the version in Chart.yaml is 0.0.1" sed -i 's/^version: .*/version: 0.0.1/' charts/global-dns/Chart.yaml
refused_after "another appVersion" "the appVersion in Chart.yaml is 0.0.1" sed -i 's/^appVersion: .*/appVersion: 0.0.1/' charts/global-dns/Chart.yaml
refused_after "another image label" "the version in Dockerfile is 0.0.1" sed -i 's/image.version="[^"]*"/image.version="0.0.1"/' Dockerfile
refused_after "an old lock file" "the version in Cargo.lock is 0.0.1" \
    sed -i '/^name = "global-dns"$/{n;s/.*/version = "0.0.1"/}' Cargo.lock
refused_after "no release notes" "CHANGELOG.md has no section" sed -i "s/^## $version$/## 0.0.1/" CHANGELOG.md
refused_after "changes without a version" "still has changes under 'Unreleased'" \
    sed -i "s/^## $version$/## Unreleased\n\n- A change.\n\n## $version/" CHANGELOG.md
refused "another tag" "the tag is v9.9.9" v9.9.9
echo >>"$copy/README.md"
refused "an uncommitted change" "the work tree differs" "$tag"
git -C "$copy" checkout --quiet README.md
git -C "$copy" commit --quiet --allow-empty --message "Later"
refused "a tag of an earlier commit" "is not the current commit" "$tag"
export GITHUB_SERVER_URL=https://github.com GITHUB_REPOSITORY=other/fork
refused "the repository of somebody else" "but this is https://github.com/other/fork" "$tag"
