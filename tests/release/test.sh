#!/usr/bin/env bash
# Checks the workflows, the scripts and the refusals of a release. tests/run runs this script and installs actionlint and
# ShellCheck. tests/release/publish.sh makes a release.
set -euo pipefail

cd -- "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/../.."
# shellcheck source=tests/release/copy.sh
source tests/release/copy.sh

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
url=https://github.com/Example/global-dns
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

# Prints a job of the workflow `release`.
job() { awk -v name="  $1:" '/^  [a-z]+:$/ { inside = $0 == name } inside' .github/workflows/release.yml; } # NAME

# A job that may write runs no code of dependencies: it has no container with a compiler, and no step but these.
mapfile -t names < <(sed -n '/^jobs:$/,$s/^  \([a-z]*\):$/\1/p' .github/workflows/release.yml)
for name in "${names[@]}"; do
    [[ $name == publish || $(job "$name") != *": write"* ]] || fail_release "the job $name has a permission to write"
done
[[ $(job build) == *".github/release make "* ]] || fail_release "the job build does not make the files of a release"
# shellcheck disable=SC2016 # the text of the workflow
unexpected=$(job publish | grep -E '^ *(- )?(run|container):' |
    grep -vE ' run: \.github/release (tools push|login|push "\$GITHUB_REF_NAME"|publish|pages)$' || true)
[[ -z $unexpected ]] || fail_release "the job publish has more steps than to push and sign: $unexpected"
mapfile -t names < <(grep -ohE '\.github/release [a-z]+' .github/workflows/*.yml | cut -d' ' -f2 | sort -u)
for name in "${names[@]}"; do
    .github/release --help | grep -q "^  \.github/release $name " || fail_release "a workflow runs the unknown step '$name'"
done
step "only the job publish may write, and it builds nothing of the project"

# Dependabot updates the image in the Dockerfile, but in no workflow.
images=$(grep -hE '^FROM .*/|^ *image: ' Dockerfile .github/workflows/*.yml | sed -E 's/.*(FROM|image:) (--platform=[^ ]+ )?//; s/ AS .*//')
channel=$(sed -n 's/^channel = "\([0-9]*\.[0-9]*\).*/\1/p' rust-toolchain.toml)
[[ $(wc -l <<<"$images") == 3 && $(sort -u <<<"$images") =~ ^docker\.io/library/rust:$channel-bookworm(@sha256:[0-9a-f]{64})?$ ]] ||
    fail_release "Dockerfile and workflows have not the same image, that of Rust $channel: $images"

# Versions that belong together have folders that Dependabot leaves alone.
updated=$(sed -n 's|^ *- /tests/tools/||p' .github/dependabot.yml | sort)
expected=$(grep -l '^require' tests/tools/*/go.mod | cut -d/ -f3 |
    grep -vxE '(coredns|kubernetes)_[0-9_]+|etcd(_3_6)?|helm|kubectl|kubernetes' | sort)
[[ $updated == "$expected" ]] || fail_release "Dependabot updates other Go modules than expected: $(diff <(echo "$updated") <(echo "$expected"))"
grep -qE '^FROM --platform=[^ ]+ [a-z]' Dockerfile || fail_release "Dependabot finds no image in the Dockerfile"
step "Dependabot updates $(wc -l <<<"$updated") of $(find tests/tools -name go.mod | wc -l) modules in tests/tools, and the image"

# The release document has the commands of the step `verify`, and the layers that CI does not run.
used=$(sed -n '/^verify()/,/^}/p' .github/release | grep -oE 'cosign [a-z-]+|--type [a-z0-9]+' | sort -u)
missing=$(while read -r text; do grep -qF -- "$text " .github/RELEASE.md || echo "$text"; done <<<"$used")
[[ $(wc -l <<<"$used") == 6 && -z $missing ]] || fail_release "RELEASE.md does not verify with: $missing"
for text in "tests/run release publish upgrade versions" "write its commit to \`COMMIT\`"; do
    grep -qF "$text" .github/RELEASE.md || fail_release "RELEASE.md lacks '$text'"
done

# A report about a document needs no output of the server.
required=$(awk '/^    id: / { id = $2 } /required: true/ { print id }' .github/ISSUE_TEMPLATE/bug.yml | paste -sd' ')
[[ $required == "behavior versions" ]] || fail_release "a report of a bug requires $required"

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
[[ $output == *" .github/RELEASE.md:"* ]] || fail_release "the refusal does not name the placeholder of the registry: $output"
! "$copy/.github/release" name example/global-dns 2>/dev/null || fail_release "'name' accepts what is no URL"

git -C "$copy" tag --delete "$tag" >/dev/null
make_ready "$copy" "$url" "$version"
"$copy/.github/release" check "$tag"
# Names of images are in lower case.
for text in "image=ghcr.io/example/global-dns" "identity=$url/.github/workflows/release.yml@refs/tags/vVERSION"; do
    grep -qxF "$text" "$copy/.github/RELEASE.md" || fail_release "after the step 'name', RELEASE.md lacks '$text'"
done
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
for file in Dockerfile .github/workflows/{ci,release}.yml; do
    refused_after "an image without a digest in $file" "not pinned by digest in $file:" sed -i 's/@sha256:0*//' "$file"
done
refused_after "the placeholder of the registry" "$registry_placeholder is not replaced in README.md" \
    sed -i "\$a $registry_placeholder/global-dns" README.md
refused_after "a document that denies the image" "README.md: 'no public image' is false" \
    sed -i "\$a There is no public\nimage yet." README.md
refused_after "a comment that denies the image" "charts/global-dns/values.yaml: 'no public image' is false" \
    sed -i "\$a # There is no public\n# image yet." charts/global-dns/values.yaml
refused "another tag" "the tag is v9.9.9" v9.9.9
echo >>"$copy/README.md"
refused "an uncommitted change" "the work tree differs" "$tag"
git -C "$copy" checkout --quiet README.md
git -C "$copy" commit --quiet --allow-empty --message "Later"
refused "a tag of an earlier commit" "is not the current commit" "$tag"
export GITHUB_SERVER_URL=https://github.com GITHUB_REPOSITORY=other/fork
refused "the repository of somebody else" "but this is https://github.com/other/fork" "$tag"
unset GITHUB_REPOSITORY GITHUB_SERVER_URL

# === The chart as it is published ===

# Its README has no link to a file beside it, because the package has no other documents.
REGISTRY='' "$copy/.github/release" sources "$work/chart"
readme=$work/chart/README.md
links=$(grep -oE '\]\([^)]*\)|^\[[^]]*\]: .*' "$readme" | sed -E 's/^\]\(|\)$|^\[[^]]*\]: //g')
while read -r link; do
    file=${link#"$url/blob/$tag/"} file=${file%%#*}
    [[ $link == '#'* || $link == https://* && $link != "$url"/* || $link != "$file" && -e $copy/$file && $file != *..* ]] ||
        fail_release "the README of the published chart has the link $link"
done <<<"$links"
! grep -nE 'helm .* charts/global-dns|--set image|In a clone' "$readme" || fail_release "the README of the published chart installs a clone"
grep -qF "helm install global-dns oci://ghcr.io/example/charts/global-dns --version $version " "$readme" ||
    fail_release "the README of the published chart does not install it"
grep -qxF "  repository: ghcr.io/example/global-dns" "$work/chart/values.yaml" || fail_release "the published chart has another image"
[[ -z $(git -C "$copy" status --porcelain) ]] || fail_release "packaging the chart changes the work tree"
step "the README of the published chart has $(wc -l <<<"$links") links that work without a clone"
