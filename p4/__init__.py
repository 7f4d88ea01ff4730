"""P4 for netfold: a P4_16 front end (`lang`), code generation to C++ (`codegen`), the engine (`targets`)."""
