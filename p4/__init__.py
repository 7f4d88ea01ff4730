"""P4 for netfold: a P4_16 front end (`lang`), code generation to C++ (`codegen`), switches (`targets`)."""

from pkgutil import extend_path

# P4Runtime's generated messages live in a package that is called `p4` too (p4.v1, p4.config.v1).
__path__ = extend_path(__path__, __name__)
