"""Control planes of the programs in p4/programs, on any `Target`, for emulator and simulation alike."""
