// workloads._kernels: the loops of graphs, plans and messages that numpy cannot vectorise. No ns-3 here.
#include <nanobind/nanobind.h>

namespace netfold {
void bind_attention(nanobind::module_& m);
void bind_csr(nanobind::module_& m);
void bind_generate(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_plan_graph(nanobind::module_& m);
void bind_plan_order(nanobind::module_& m);
void bind_plan_split(nanobind::module_& m);
void bind_plan_thin(nanobind::module_& m);
void bind_quantise(nanobind::module_& m);
void bind_triangles(nanobind::module_& m);
}  // namespace netfold

NB_MODULE(_kernels, m) {
    m.doc() = "Graph, plan and message kernels (C++).";
    netfold::bind_attention(m);
    netfold::bind_csr(m);
    netfold::bind_generate(m);
    netfold::bind_text(m);
    netfold::bind_plan_graph(m);
    netfold::bind_plan_order(m);
    netfold::bind_plan_split(m);
    netfold::bind_plan_thin(m);
    netfold::bind_quantise(m);
    netfold::bind_triangles(m);
}
