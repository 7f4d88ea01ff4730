#!/bin/sh
# Says in one line what a bare machine lacks before `make` installs anything. Usage: preflight.sh PYTHON
python=$1
say() {
    echo "netfold: error: $1" >&2
    exit 1
}
command -v "$python" >/dev/null || say "$python not found; on Debian or Ubuntu: apt install python3 python3-venv python3-dev g++"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    say "$("$python" --version) given; Python 3.11 or newer is needed (make PYTHON=python3.12)"
"$python" -c 'import venv, ensurepip' 2>/dev/null || say "Python's venv is missing; on Debian or Ubuntu: apt install python3-venv"
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
    say "Python's headers are missing; on Debian or Ubuntu: apt install python3-dev"
command -v "${CXX:-g++}" >/dev/null || say "${CXX:-g++} not found; on Debian or Ubuntu: apt install g++"
