// What travels: a 32-byte descriptor of a packet. Payload values, where a run carries them, sit in a pool beside it.
#ifndef NETFOLD_FRAME_H
#define NETFOLD_FRAME_H

#include "units.h"

namespace netfold
{

enum class Kind : std::uint8_t
{
    Upload,     // a worker's vertex chunk on its way to aggregators (recirculation multicast)
    Presum,     // a worker's partial sum for one remote vertex (general INA)
    Partial,    // a leaf's aggregate of its rack's contributions
    Result,     // a completed sum on its way to the owner
    Raw,        // an unaggregated chunk: host-based data, a bypassed contribution, a pull reply
    Pull,       // a list of missing chunks that an owner asks a worker for
    Finish,     // to the block's root: a worker has sent (kSentOnly), or sent and received, all of the block
    Complete,   // from the root: every worker has
    Cnp,        // congestion notification (DCQCN)
    Background, // other tenants' traffic
};

inline constexpr int kKinds = 10;
inline constexpr const char* kKindNames[kKinds] =
    {"upload", "presum", "partial", "result", "raw", "pull", "finish", "complete", "cnp", "background"};

enum FrameFlag : std::uint8_t
{
    kCongestionExperienced = 1, // ECN CE
    kResend = 2,                // never added by a switch
    kBypassed = 4,              // forwarded unaggregated by a switch; its sender's upload flow is to blame for congestion
    kHomeLevel = 8,             // past its first leaf: to be aggregated at the owners' leaf
    kBackgroundFlow = 16,       // a CNP for background traffic
    kSentOnly = 32,             // of Finish and Complete: about sending alone; what is missing from then on may be lost
};

struct Frame
{
    Ps time;               // arrival at the far end of the link it is on
    std::uint32_t item;    // slot (upload, presum, partial, result), entry (raw) or flow (background, its cnp)
    std::uint32_t payload; // value or pull-list pool index, kNone when it carries none
    std::uint32_t tag;     // sequence number of the exchange (block or host-based phase) it belongs to
    std::uint16_t bytes;   // Ethernet frame with FCS, without preamble and gap
    std::uint16_t chunk;
    std::uint16_t src; // node address: workers first, then switches
    std::uint16_t dst;
    Kind kind;
    std::uint8_t flags;
};

static_assert(sizeof(Frame) == 32);

} // namespace netfold

#endif
