#include <nanobind/nanobind.h>
#include "ns3/simulator.h"
NB_MODULE(_native, m) {
    m.def("now", [] { return ns3::Simulator::Now().GetNanoSeconds(); });
}
