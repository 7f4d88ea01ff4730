"""Name resolution and type checking: syntax tree in, typed program (`ir`) out.

One class in layers, each file one subject: scope and types (`names`), `expressions`, `calls`, `statements`,
`tables`, `blocks` (parsers and controls), `program`.
"""

from p4.lang.checker.program import check_program

__all__ = ["check_program"]
