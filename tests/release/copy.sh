# Functions that copy the repository, to make a release of the copy. Scripts source this file in the root of the repository.
# shellcheck shell=bash

# Copies the files of the work tree, with changes that are not committed, and commits them in a new repository.
copy_repository() { # DIRECTORY
    mkdir -p -- "$1"
    # Without files that are deleted and still in the index.
    git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
        tar --create --null --files-from=- | tar --extract --directory "$1"
    git -C "$1" init --quiet --initial-branch main
    git -C "$1" config user.name test
    git -C "$1" config user.email test@example.com
    commit_all "$1"
}

commit_all() { # DIRECTORY
    git -C "$1" add --all
    git -C "$1" commit --quiet --allow-empty --message "Test"
}

# Does what a person does before a release: gives the repository a name and the changes a version, and tags the commit.
make_ready() { # DIRECTORY URL VERSION
    "$1/.github/release" name "$2"
    ! grep -qx '## Unreleased' "$1/CHANGELOG.md" || sed -i "s/^## Unreleased$/## $3/" "$1/CHANGELOG.md"
    commit_all "$1"
    git -C "$1" tag "v$3"
}
