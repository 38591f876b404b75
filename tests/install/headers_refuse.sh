#!/bin/sh
# headers_refuse.sh COMPILER INCLUDE_DIR...: the first error of a program whose compiler is set to
# another standard or another std::string names the remedy; the C interface works with all of them.
set -eu
compiler=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for directory in "$@"; do printf -- '-I%s\n' "$directory"; done > "$work/includes"
wrong=0

compile() { # header, options
  printf '#include "simm/%s"\nint main() {}\n' "$1" > "$work/program.cpp"
  shift
  LC_ALL=C "$compiler" -fsyntax-only "@$work/includes" "$@" "$work/program.cpp" 2> "$work/said"
}
works() {
  if ! compile "$@"; then
    echo "simm/$1 does not compile with: $*"
    cat "$work/said"
    wrong=1
  fi
}
refuses() { # words of the remedy, header, options
  words=$1
  shift
  if compile "$@"; then
    echo "simm/$1 compiles with: $*"
    wrong=1
  elif ! grep -m 1 'error:' "$work/said" | grep -qF -e "$words"; then
    echo "simm/$1 with: $*: the first error does not say '$words':"
    grep -m 3 'error:' "$work/said"
    wrong=1
  fi
}

for header in client.h batch.h region.h error_code.h log.h trace.h expected.h status.h; do
  works "$header" -std=c++20
  refuses '-std=c++20' "$header" -std=c++17
  refuses '-D_GLIBCXX_USE_CXX11_ABI=1' "$header" -std=c++20 -D_GLIBCXX_USE_CXX11_ABI=0
  # As libc++ says who it is.
  refuses '-stdlib=libc++' "$header" -std=c++20 -D_LIBCPP_VERSION=14000
done
works simm.h -std=c++11
works simm.h -std=c++20 -D_GLIBCXX_USE_CXX11_ABI=0
exit "$wrong"
