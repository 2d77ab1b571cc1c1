# Functions that copy the repository, to make a release of the copy. Scripts source this file in the root of the repository.
# shellcheck shell=bash

# In two parts, so that `.github/release name` does not replace them.
placeholder="https://example"".invalid/global-dns"
registry_placeholder="ghcr.io/""OWNER"

# Copies the files of the work tree, with changes that are not committed, and commits them in a new repository. If the project has
# got its name, the copy has the placeholders again.
copy_repository() { # DIRECTORY
    local url owner
    mkdir -p -- "$1"
    # Without files that are deleted and still in the index.
    git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
        tar --create --null --files-from=- | tar --extract --directory "$1"
    url=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)
    owner=$(cut -d/ -f4 <<<"${url,,}")
    grep -rlZF -e "$url" -e "ghcr.io/$owner/" -- "$1" |
        xargs -0r sed -i "s|$url|$placeholder|g; s|ghcr\.io/$owner/|$registry_placeholder/|g"
    git -C "$1" init --quiet --initial-branch main
    git -C "$1" config user.name test
    git -C "$1" config user.email test@example.com
    commit_all "$1"
}

commit_all() { # DIRECTORY
    git -C "$1" add --all
    git -C "$1" commit --quiet --allow-empty --message "Test"
}

# Does what a person does before a release: gives the repository a name and the changes a version, pins images, corrects what
# documents say about images, and tags the commit.
make_ready() ( # DIRECTORY URL VERSION
    cd -- "$1" || return
    .github/release name "$2"
    sed -Ei "/@sha256:/!{/^FROM .*\/|^ *image: /s/(:[^ ]+)( |$)/\1@sha256:$(printf '0%.0s' {1..64})\2/}" Dockerfile .github/workflows/*.yml
    git ls-files -z '*.md' charts ':!CHANGELOG.md' | xargs -0 sed -zEi 's/no (public\s+(# )?image)/a \1/gi'
    ! grep -qx '## Unreleased' CHANGELOG.md || sed -i "s/^## Unreleased$/## $3/" CHANGELOG.md
    commit_all .
    git tag "v$3"
)
