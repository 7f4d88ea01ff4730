// The quantiser's loops for x86-64-v4.
#define NETFOLD_ISA avx512
#include "quantise_kernels.hpp"
