// Frames as bytes: Ethernet, IPv4, UDP, aggregation header and values, as p4/programs/include/wire.p4 has them.
//
// Where each field lies comes from that file (sim/wire.py reads it through p4.lang); what is in it, from the frame. Between
// a host's Encode() and the next host's Decode() a frame's payload is its bytes. Switches see bytes alone; Describe() fills
// in the frame that travels beside them, for the links' counters and the packet table.
//
// Frames that switches may add up, or count, go to the aggregation's UDP port. What is between hosts alone (host-based
// values, pull lists, other tenants' traffic), which has lengths that the aggregation's parser would refuse, goes to
// another, with the same headers.
#ifndef NETFOLD_WIRE_CODEC_H
#define NETFOLD_WIRE_CODEC_H

#include "byte-pool.h"
#include "fabric.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace netfold
{

class EpochRunner;

// A field's bits in the frame, from its first; at most 64.
struct WirePlace
{
    std::uint32_t at;
    std::uint32_t bits;
};

struct WireLayout
{
    std::map<std::string, WirePlace> fields;      // "agg.vertex"; "values" is the first of them
    std::map<std::string, std::uint64_t> numbers; // packet types, ports, first addresses: see WireCodec's constructor
};

class WireCodec
{
  public:
    // Throws std::out_of_range when the layout lacks something.
    WireCodec(const WireLayout& layout, Fabric& fabric);

    void Connect(EpochRunner& runner)
    {
        m_runner = &runner;
    }

    // A host's frame onto the wire: its values or pull list go into the bytes.
    void Encode(Frame& frame);

    // ... and off it. False for bytes that are no frame of ours, or none for this worker: they are dropped and counted.
    bool Decode(Frame& frame, std::uint32_t worker);

    // A frame that a switch sends, payload aside; its length is `bytes` without the FCS. What is no frame of ours is
    // described as other tenants' traffic.
    bool Describe(const std::uint8_t* data, std::size_t bytes, Frame& frame) const;

    // Lost on a link or dropped by a switch.
    void Release(const Frame& frame)
    {
        pool.Release(frame.payload);
    }

    BytePool pool;

  private:
    // A field of whole bytes: 1, 2, 4 or 6 of them. Read as the end of the eight bytes that end with it, so none that lies in
    // a frame's first eight bytes can be read.
    struct Field
    {
        std::uint32_t at{0};
        std::uint32_t bytes{0};

        void Put(std::uint8_t* frame, std::uint64_t value) const
        {
            const std::uint64_t swapped = __builtin_bswap64(value << (64 - 8 * bytes));
            switch (bytes)
            {
            case 1:
                frame[at] = static_cast<std::uint8_t>(value);
                break;
            case 2:
                std::memcpy(frame + at, &swapped, 2);
                break;
            case 4:
                std::memcpy(frame + at, &swapped, 4);
                break;
            default:
                std::memcpy(frame + at, &swapped, bytes);
            }
        }

        std::uint64_t Get(const std::uint8_t* frame) const
        {
            std::uint64_t last;
            std::memcpy(&last, frame + at + bytes - 8, 8);
            return __builtin_bswap64(last) & (~0ull >> (64 - 8 * bytes));
        }
    };

    // A field within a byte.
    struct Bits
    {
        std::uint32_t at{0};
        std::uint8_t mask{0};
        std::uint8_t shift{0};

        void Put(std::uint8_t* frame, std::uint32_t value) const
        {
            frame[at] = static_cast<std::uint8_t>((frame[at] & ~mask) | (value << shift));
        }

        std::uint32_t Get(const std::uint8_t* frame) const
        {
            return (frame[at] & mask) >> shift;
        }
    };

    Field Whole(const WireLayout& layout, const std::string& name) const;
    Bits Part(const WireLayout& layout, const std::string& name) const;
    void PutConstants(std::uint8_t* frame) const;
    void PutValues(std::uint8_t* bytes, const std::int32_t* values, std::uint32_t count) const;
    std::uint32_t TypeOf(const Frame& frame) const;
    bool ForSwitches(const Frame& frame) const;
    bool IsPossible(const Frame& frame, std::uint32_t worker, const std::uint8_t* bytes, std::size_t length) const;
    std::vector<PullItem> PullItems(const std::uint8_t* bytes, std::size_t length) const;

    Fabric& m_fabric;
    EpochRunner* m_runner{nullptr};
    std::vector<std::uint8_t> m_constants; // the headers of every frame, as far as they do not vary
    std::uint32_t m_constantSum{0};        // of the IPv4 header's in it
    std::uint32_t m_values; // offset of the first
    std::uint32_t m_ipAt;
    Field m_ethernetDst, m_ethernetSrc, m_ethernetType;
    Field m_length, m_ttl, m_protocol, m_checksum, m_ipSrc, m_ipDst;
    Bits m_version, m_ihl, m_ecn;
    Field m_udpSrc, m_udpDst, m_udpLength;
    Field m_type, m_job, m_level, m_block, m_round, m_vertex, m_chunk, m_worker, m_count;
    Bits m_resend, m_bypass, m_pull;
    std::uint64_t m_etherType, m_udp, m_aggregationPort, m_hostPort, m_firstIp, m_switchIp, m_firstMac, m_gatewayMac,
        m_firstSource, m_fcs;
    std::uint64_t m_upload, m_partial, m_result, m_direct, m_pullType, m_done, m_complete, m_cnp;
};

} // namespace netfold

#endif
