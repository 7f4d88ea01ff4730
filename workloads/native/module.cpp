// workloads._kernels: the graph and plan loops that numpy cannot vectorise. No ns-3 here.
#include <nanobind/nanobind.h>

NB_MODULE(_kernels, m) {
    m.doc() = "Graph and plan kernels (C++).";
}
