// Attention's loops for any processor of this architecture.
#define NETFOLD_ISA attention_baseline
#include "attention_kernels.hpp"
