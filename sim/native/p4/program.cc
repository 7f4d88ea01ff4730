#include "program.h"

#include <dlfcn.h>

#include <stdexcept>

namespace netfold
{

namespace
{

constexpr int kAbiVersion = 7; // p4/targets/library.py

template <typename Function>
void
Find(void* library, const char* name, Function& function)
{
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (!function)
    {
        throw std::runtime_error(std::string("the P4 program's library has no ") + name);
    }
}

} // namespace

P4Program::P4Program(const std::string& libraryPath, std::uintptr_t address)
    : m_handle(reinterpret_cast<void*>(address))
{
    // The engine has it open already, and keeps it so: this only asks for the same one.
    void* library = dlopen(libraryPath.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (!library || !m_handle)
    {
        throw std::runtime_error("the P4 program " + libraryPath + " is not loaded in this process");
    }
    int (*version)();
    Find(library, "nf_abi_version", version);
    if (version() != kAbiVersion)
    {
        throw std::runtime_error(libraryPath + ": ABI version " + std::to_string(version()) + ", this netfold speaks " +
                                 std::to_string(kAbiVersion));
    }
    Find(library, "nf_ingress", m_ingress);
    Find(library, "nf_pass", m_pass);
    Find(library, "nf_announce", m_announce);
    Find(library, "nf_prefetch", m_prefetch);
    Find(library, "nf_discard", m_discard);
    Find(library, "nf_pass_at_once", m_passAtOnce);
    Find(library, "nf_pass_ahead", m_passAhead);
    Find(library, "nf_turns", m_turns);
    Find(library, "nf_output", m_output);
    Find(library, "nf_clear_output", m_clearOutput);
    const std::uint64_t* (*statistics)(void*);
    Find(library, "nf_statistics", statistics);
    static_assert(sizeof(P4Statistics) == 7 * sizeof(std::uint64_t));
    m_statistics = reinterpret_cast<const P4Statistics*>(statistics(m_handle));
    dlclose(library);
}

} // namespace netfold
