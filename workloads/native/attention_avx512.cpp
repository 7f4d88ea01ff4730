// Attention's loops for x86-64-v4.
#define NETFOLD_ISA attention_avx512
#include "attention_kernels.hpp"
