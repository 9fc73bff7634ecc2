#!/bin/sh
# hdfs dfs and hadoop fs, on the storage that is mounted at $PAI_DEFAULT_FS_URI, for images without Hadoop.
# It needs a POSIX shell, and coreutils or busybox. Exit codes are Hadoop's: 1 for failed, 255 for wrong usage.

usage() { # WHAT SUPPORTED
  printf '%s\n' "$1" "luigi_pai: $program works on the storage at ${PAI_DEFAULT_FS_URI-}; it supports $2" >&2
  exit 255
}

fail() { # PATH WHY: report it, and go on with the other paths
  printf "%s: \`%s': %s\n" "$command" "$1" "$2" >&2
  failed=1
  return 1
}

has() { # OPTION
  case $options in *" $1 "*) return 0 ;; esac
  return 1
}

trim() { # set path to PATH without slashes at its end
  path=$1
  while :; do case $path in ?*/) path=${path%/} ;; *) return ;; esac done
}

on_storage() { # NAME: set path, and prefix to the part of path that is not in NAME
  prefix=
  case $1 in
    "$root" | "$root"/*) trim "$1" ;;
    "$mount" | "$mount"/*) prefix=${LUIGI_PAI_MOUNTS-} && trim "$prefix$1" ;;
    file://*) trim "${1#file://}" ;;
    *://*) fail "$1" "is not on the storage at $root" ;;
    /*) prefix=$root && trim "$root$1" ;;
    *) prefix=$root/user/$PAI_USER_NAME/ && trim "$prefix$1" ;;
  esac
}

on_disk() { # NAME: set path
  trim "${1#file://}"
  case $path in .) path=$PWD ;; - | /*) ;; *) path=$PWD/$path ;; esac
}

each() { # FUNCTION NAME...: call FUNCTION with every path that a name matches, and the name of this path
  act=$1
  shift
  for given; do
    on_storage "$given" || continue
    IFS= && set -- $path && unset IFS
    for found; do
      if [ -e "$found" ] || [ "$command" = mkdir ] || [ "$command" = touchz ]; then
        "$act" "$found" "${found#"$prefix"}" || failed=1
      elif [ "$command" != rm ] || ! has f; then
        fail "$given" 'No such file or directory'
      fi
    done
  done
}

write() { # SOURCE TARGET NAME: a file gets its name when it is complete
  [ ! -d "$2" ] || { fail "$3" 'Is a directory'; return; }
  [ ! -e "$2" ] || has f || { fail "$3" 'File exists'; return; }
  part=$2.${PAI_CURRENT_TASK_ROLE_NAME-}${PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX-}.$$._COPYING_
  if [ "$1" = - ]; then cat >"$part"; else cat "$1" >"$part"; fi && mv -f "$part" "$2" && return
  rm -f "$part"
  fail "$3" 'Input/output error'
}

copy() ( # SOURCE TARGET NAME: a file, or a folder, which is merged into an existing one
  [ -d "$1" ] || { write "$@"; exit; }
  [ ! -e "$2" ] || [ -d "$2" ] || { fail "$3" 'Is not a directory'; exit; }
  case $2/ in "$1"/*) fail "$3" 'is a subdirectory of itself'; exit ;; esac
  mkdir -p "$2" || exit
  failed=0
  for child in "$1"/* "$1"/.[!.]*; do
    [ ! -e "$child" ] || copy "$child" "$2/${child##*/}" "$3/${child##*/}" || failed=1
  done
  exit $failed
)

move() { # SOURCE TARGET NAME
  if [ -e "$2" ]; then fail "$3" 'File exists'; else mv "$1" "$2"; fi
}

transfer() { # FUNCTION GOAL NAME SOURCE...: call FUNCTION with every source, its target and the target's name
  act=$1 goal=$2 name=$3
  shift 3
  [ $# = 1 ] || [ -d "$goal" ] || [ ! -e "$goal" ] || { fail "$name" 'Is not a directory'; return; }
  case $#:$name in 1:*[!/]) folder=${goal%/*}/ ;; *) folder=$goal ;; esac
  [ -e "$goal" ] || [ -d "$folder" ] || { fail "$name" 'No such file or directory'; return; }
  below=
  for source; do
    [ "$source" = - ] || [ -e "$source" ] || { fail "$source" 'No such file or directory'; continue; }
    [ ! -d "$goal" ] || below=/${source##*/} name=${name%/}
    "$act" "$source" "$goal$below" "$name$below" || { failed=1 && continue; }
    [ "$command" != moveFromLocal ] || rm -rf "$source"
  done
}

show() ( # PATH NAME: the line of ls
  if has C; then printf '%s\n' "$2"; exit; fi
  name=$2 replicas=1 size=
  [ ! -d "$1" ] || replicas=- size=0
  facts=$(stat -L -c '%A %U %G %s %y' "$1") || exit
  set -- $facts
  printf '%s %3s %-8s %-10s %10s %s %.5s %s\n' "$1" "$replicas" "$2" "$3" "${size:-$4}" "$5" "$6" "$name"
)

list() ( # PATH NAME
  if [ ! -d "$1" ] || has d; then show "$@"; exit; fi
  path=$1 name=${2%/}
  set --
  for child in "$path"/* "$path"/.[!.]*; do [ ! -e "$child" ] || set -- "$@" "$child"; done
  [ $# = 0 ] || has R || has C || echo "Found $# items"
  for child; do
    show "$child" "$name/${child##*/}"
    if has R && [ -d "$child" ]; then list "$child" "$name/${child##*/}"; fi
  done
)

make() { # PATH NAME
  if [ -d "$1" ] && has p; then return; fi
  [ ! -e "$1" ] || { fail "$2" 'File exists'; return; }
  has p || [ -d "${1%/*}/" ] || { fail "$2" 'No such file or directory'; return; }
  mkdir -p "$1"
}

remove() { # PATH NAME
  [ ! "$1" -ef "$root" ] || { fail "$2" 'is the whole storage'; return; }
  [ ! -d "$1" ] || has r || has R || { fail "$2" 'Is a directory'; return; }
  rm -rf "$1" && printf 'Deleted %s\n' "$2"
}

print() { # PATH NAME
  if [ -d "$1" ]; then fail "$2" 'Is a directory'; else cat "$1"; fi
}

make_empty() { # PATH NAME
  if [ -s "$1" ]; then fail "$2" 'Not a zero-length file'; else touch "$1"; fi
}

check() { # NAME: exit with the result of the test
  on_storage "$1" || exit
  IFS= && set -- $path && unset IFS
  case $options in
    ' e ') [ -e "$1" ] ;;
    ' d ') [ -d "$1" ] ;;
    ' f ') [ -f "$1" ] ;;
    ' s ') [ -f "$1" ] && [ -s "$1" ] ;;
    ' z ') [ -f "$1" ] && [ ! -s "$1" ] ;;
    *) usage '-test: Give one test' '-test with one of -e -d -f -s -z' ;;
  esac
  exit
}

program=${0##*/}
case ${1-} in dfs | fs) shift ;; *) usage "$program ${1-}: Unknown command" "$program dfs and $program fs" ;; esac
while :; do # options of Hadoop itself
  case ${1-} in -D | -fs | -conf) shift ;; -D*) ;; *) break ;; esac
  [ $# = 0 ] || shift
done
command=${1-} known='' least=1
[ $# = 0 ] || shift
case $command in
  -put | -copyFromLocal | -moveFromLocal) known='f p l' ;;
  -get | -copyToLocal) known='f p ignoreCrc crc' ;;
  -appendToFile | -mv) least=2 ;;
  -cp) known='f p' least=2 ;;
  -cat) known='ignoreCrc' ;;
  -ls) known='R C d h' least=0 ;;
  -mkdir) known='p' ;;
  -rm) known='f r R skipTrash' ;;
  -test) known='e d f s z' ;;
  -touchz) ;;
  *)
    usage "$command: Unknown command" \
      '-put -copyFromLocal -moveFromLocal -get -copyToLocal -cat -ls -mkdir -test -rm -touchz -appendToFile -mv -cp'
    ;;
esac
command=${command#-} options=' ' failed=0
while :; do
  case ${1-} in -?*) ;; *) break ;; esac
  case " $known " in
    *" ${1#-} "*) options="$options${1#-} " && shift ;;
    *) usage "-$command: Illegal option $1" "these options of -$command: ${known:-none}" ;;
  esac
done
[ $# -ge $least ] || usage "-$command: Not enough arguments" "-$command with at least $least"

trim "${PAI_DEFAULT_FS_URI-}"
root=$path mount=${path#"${LUIGI_PAI_MOUNTS-}"}
if [ -z "$root" ] || [ ! -d "$root" ]; then
  echo "$command: the storage is not mounted here: PAI_DEFAULT_FS_URI is '$root', which is no folder" >&2
  exit 1
fi

# A container's user is root or nobody. The user who submitted the job can change and delete what containers
# write only where everybody can.
mask=$(umask)
umask 0

case $command in # the commands that work on each path by itself
  ls) [ $# -gt 0 ] || set -- . && each list "$@" ;;
  cat) each print "$@" ;;
  mkdir) each make "$@" ;;
  rm) each remove "$@" ;;
  touchz) each make_empty "$@" ;;
  test) check "$1" ;;
  *)
    goal=. number=0 last=$#
    for given; do # keep the paths of the sources as arguments; the last argument is the goal
      shift
      number=$((number + 1))
      if [ $number = "$last" ] && [ $number -gt 1 ]; then
        goal=$given
        continue
      fi
      case $command in
        get | copyToLocal | cp | mv) on_storage "$given" && IFS= && set -- "$@" $path && unset IFS ;;
        *) on_disk "$given" && set -- "$@" "$path" ;;
      esac
    done
    case $command in get | copyToLocal) on_disk "$goal" ;; *) on_storage "$goal" ;; esac || exit 1
    case $command in
      appendToFile)
        for source; do [ "$source" = - ] || [ -e "$source" ] || fail "$source" 'No such file or directory'; done
        [ $failed = 1 ] || cat "$@" >>"$path" || failed=1
        ;;
      mv) transfer move "$path" "$goal" "$@" ;;
      get | copyToLocal) umask "$mask" && transfer copy "$path" "$goal" "$@" ;;
      *) transfer copy "$path" "$goal" "$@" ;;
    esac
    ;;
esac
exit $failed
