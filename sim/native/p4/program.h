// A compiled P4 program in this process, for C++: the passes of one `Engine` (p4/targets/engine.py), run one by one.
//
// Python loads the library, fills tables, groups and registers through the `Target` interface, and hands over
// `engine.library_path` and `engine.address`. Both sides then work on the same switch: what Python inserts later, the next
// pass sees. The Python object must outlive this one.
//
// The functions are those of p4/runtime/netfold_p4/abi.h, under "the passes alone": whoever holds a P4Program is the
// traffic manager (traffic-manager.h is ours).
#ifndef NETFOLD_P4_PROGRAM_H
#define NETFOLD_P4_PROGRAM_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace netfold
{

// A packet that waits for its next pass; abi.h's nf_descriptor.
struct P4Descriptor
{
    enum Next : std::uint32_t
    {
        Egress,       // in the egress queue of `port` at `priority`
        Resubmitted,  // back to the parser, as it came
        Recirculated, // back to the parser, as it left egress port `port`
    };

    std::uint64_t item; // the library keeps headers, metadata and payload under this number
    std::uint32_t next;
    std::uint32_t port;
    std::uint32_t priority; // 0 to 7, the higher leaves first
    std::uint32_t bytes;
};

// A packet that left egress, perhaps before its time in the queue (PassAhead); valid until the next pass.
struct P4Packet
{
    std::uint32_t port;
    const std::uint8_t* data;
    std::size_t bytes;
    std::uint32_t source; // the caller's number of the packet it came from
    bool ahead;           // it has yet to wait in its port's queue
};

// The seven numbers of nf_statistics (abi.h).
struct P4Statistics
{
    std::uint64_t passes;       // through ingress or egress
    std::uint64_t runaways;     // packets stopped because they went round for ever
    std::uint64_t endlessLoops; // ... or looped for ever within a pass
    std::uint64_t queueDrops;
    std::uint64_t failedAssertions;
    std::uint64_t parserTimeouts;
    std::uint64_t drops; // passes that left nothing of their packet
};

class P4Program
{
  public:
    // Throws std::runtime_error when the library is not loaded in this process or speaks another ABI.
    P4Program(const std::string& libraryPath, std::uintptr_t address);

    // Parser, checksums and ingress of a packet that arrives on `port`; `source` is any number of the caller's. The
    // descriptors hold until the next pass.
    std::span<const P4Descriptor> Ingress(std::uint32_t port,
                                          const std::uint8_t* data,
                                          std::size_t bytes,
                                          std::uint64_t nowNs,
                                          std::uint32_t source)
    {
        const P4Descriptor* next = nullptr;
        const std::uint64_t count = m_ingress(m_handle, port, data, bytes, nowNs, source, &next);
        return {next, count};
    }

    // The next pass of an item: egress, or ingress again for one that goes round. What the program reads as
    // enq_timestamp, enq_qdepth and deq_qdepth is the caller's to say (zero for an item that goes round).
    std::span<const P4Descriptor> Pass(std::uint64_t item,
                                       std::uint64_t nowNs,
                                       std::uint64_t enqueuedNs,
                                       std::uint32_t enqueueDepth,
                                       std::uint32_t dequeueDepth)
    {
        const P4Descriptor* next = nullptr;
        const std::uint64_t count = m_pass(m_handle, item, nowNs, enqueuedNs, enqueueDepth, dequeueDepth, &next);
        return {next, count};
    }

    // What the last pass sent out: one packet at most, unless ports pass at once or ahead. `send` must not run another pass.
    template <typename Send>
    void TakeOutput(Send&& send)
    {
        const std::uint8_t* data = nullptr;
        const std::uint64_t* ends = nullptr;
        const std::uint32_t* ports = nullptr;
        const std::uint32_t* sources = nullptr;
        const std::uint8_t* ahead = nullptr;
        const std::uint64_t count = m_output(m_handle, &data, &ends, &ports, &sources, &ahead);
        if (count == 0)
        {
            return;
        }
        for (std::uint64_t i = 0, start = 0; i < count; ++i)
        {
            send(P4Packet{ports[i], data + start, static_cast<std::size_t>(ends[i] - start), sources[i], ahead[i] != 0});
            start = ends[i];
        }
        m_clearOutput(m_handle);
    }

    // Whether packets to this port pass egress, and what recirculates out of it ingress, within the call that sent them
    // there (abi.h): for a port that leads nowhere and has no rate.
    void PassAtOnce(std::uint32_t port, bool yes)
    {
        m_passAtOnce(m_handle, port, yes);
    }

    // Whether packets to this port may pass egress before they wait in its queue, if what comes of it is the same (abi.h).
    // A descriptor for the port ends it.
    void PassAhead(std::uint32_t port, bool yes)
    {
        m_passAhead(m_handle, port, yes);
    }

    struct Turns
    {
        std::uint64_t packets;
        std::uint64_t bytes;
    };

    // What recirculated out of such a port so far.
    Turns TurnsOf(std::uint32_t port) const
    {
        std::uint64_t two[2];
        m_turns(m_handle, port, two);
        return {two[0], two[1]};
    }

    // The packet's Ingress() is likely to be the next: memory that it will read begins to load.
    void Announce(std::uint32_t port, const std::uint8_t* data, std::size_t bytes)
    {
        m_announce(m_handle, port, data, bytes);
    }

    // The item's pass comes soon.
    void Prefetch(std::uint64_t item)
    {
        m_prefetch(m_handle, item);
    }

    // The item was dropped instead of getting its pass.
    void Discard(std::uint64_t item)
    {
        m_discard(m_handle, item);
    }

    // It counts on as the program runs.
    const P4Statistics& Statistics() const
    {
        return *m_statistics;
    }

  private:
    void* m_handle;
    std::uint64_t (*m_ingress)(void*, std::uint32_t, const std::uint8_t*, std::uint64_t, std::uint64_t, std::uint32_t,
                               const P4Descriptor**);
    std::uint64_t (*m_pass)(void*, std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t,
                            const P4Descriptor**);
    void (*m_announce)(void*, std::uint32_t, const std::uint8_t*, std::uint64_t);
    void (*m_prefetch)(void*, std::uint64_t);
    void (*m_discard)(void*, std::uint64_t);
    void (*m_passAtOnce)(void*, std::uint32_t, int);
    void (*m_passAhead)(void*, std::uint32_t, int);
    void (*m_turns)(void*, std::uint32_t, std::uint64_t*);
    std::uint64_t (*m_output)(void*, const std::uint8_t**, const std::uint64_t**, const std::uint32_t**,
                              const std::uint32_t**, const std::uint8_t**);
    void (*m_clearOutput)(void*);
    const P4Statistics* m_statistics;
};

} // namespace netfold

#endif
