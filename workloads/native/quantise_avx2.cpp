// The quantiser's loops for x86-64-v3.
#define NETFOLD_ISA avx2
#include "quantise_kernels.hpp"
