"""The engine's C++ runtime: headers that every generated program includes. See netfold_p4/."""
