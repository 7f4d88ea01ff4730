"""`netfold reproduce`: what a paper's figures need is run or reused, and ours stands beside theirs.

figure: a figure's comparison, and how it is shown. switchgnn: its figures from simulated sweeps. sylvie: its
tables from training runs. cli: the command.
"""
