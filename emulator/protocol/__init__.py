"""The protocol of a worker: pure state machines. Frames and the time go in, frames come out.

`endpoint` is a worker's whole protocol. What it is made of: `layout` (what a block means to a worker),
`sender` (uploads and answers), `receiver` (results and pulled chunks), `rtt` and `dcqcn` (when to give up
waiting, how fast to send), `frames` (building and reading), `gate` and `intake` (what is let in, and taken),
`pulls`, `counters`. Beside it: `codec` (numbers) and `loader` (the plan's adjacency into the switch).
"""
