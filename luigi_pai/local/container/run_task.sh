# Runs one task of `luigi-pai local`: fetches its code, runs its command, and writes its exit code to a file.
# It catches the signals that end the command and waits for it, so that the exit code is always written.
trap : HUP INT QUIT TERM
folder=$1
max_code_bytes=200000000 # a task with a larger code folder fails, as on OpenPAI 0.7

fetch_code() {
  local size
  size=$(hdfs dfs -du -s "$PAI_CODE_DIR") && size=${size%%[!0-9]*} &&
    [ "$size" -le "$max_code_bytes" ] && hdfs dfs -get "$PAI_CODE_DIR" . && return
  echo "luigi-pai local: cannot fetch the code folder $PAI_CODE_DIR of ${size:-unknown} bytes;" \
    "OpenPAI takes $max_code_bytes" >&2
  return 1
}

code=1
plugins() {
  [ ! -e "$folder/$1" ] || "$BASH" "$folder/$1" >>"$folder/runtime" 2>&1
}

if cd "$folder/work" && { [ -z "$PAI_CODE_DIR" ] || fetch_code; }; then
  plugins before.sh
  code=$?
  if [ "$code" = 0 ]; then
    "$BASH" "$folder/command.sh"
    code=$?
  fi
  if [ "$code" = 0 ]; then
    plugins after.sh
    code=$?
  fi
fi
printf '%s\n' "$code" >"$folder/exit"
exit "$code"
