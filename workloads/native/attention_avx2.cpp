// Attention's loops for x86-64-v3.
#define NETFOLD_ISA attention_avx2
#include "attention_kernels.hpp"
