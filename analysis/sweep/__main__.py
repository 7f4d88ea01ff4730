"""The process of one task; started by `task`, not by hand."""

from analysis.sweep.child import main

main()
