#!/bin/sh
# The report is tested in Debian's Chromium: install it where that is possible, else say what is missing.
command -v chromium >/dev/null || command -v chromium-browser >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "netfold: installing chromium for the tests of the report"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null && exit 0
fi
echo "netfold: the tests of the report need Chromium and fail without; on Debian or Ubuntu: apt install chromium" >&2
