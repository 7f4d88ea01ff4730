// v1model.p4: the architecture of BMv2's simple_switch. netfold's own text of its interface, after the
// simple_switch documentation and the P4_16 version of the architecture (both V1MODEL_VERSION forms).

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include <core.p4>

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

#if V1MODEL_VERSION < 20180101 || V1MODEL_VERSION > 20200408
#error V1MODEL_VERSION is unknown: 20180101 to 20200408
#endif

#if V1MODEL_VERSION >= 20200408
#define NETFOLD_INDEX I
#define NETFOLD_INDEXED <I>
#define NETFOLD_REGISTER <T, I>
typedef bit<9> PortId_t;
#else
#define NETFOLD_INDEX bit<32>
#define NETFOLD_INDEXED
#define NETFOLD_REGISTER <T>
#endif

const bit<32> __v1model_version = V1MODEL_VERSION;

match_kind { range, optional, selector }

@metadata @name("standard_metadata")
struct standard_metadata_t {
    bit<9> ingress_port;                // where the packet came in
    bit<9> egress_spec;                 // where ingress wants it out; 511 drops
    bit<9> egress_port;                 // where it goes out: set before egress
    bit<32> instance_type;              // 0 normal, 1 clone I2E, 2 clone E2E, 4 recirculated, 5 replicated, 6 resubmitted
    bit<32> packet_length;              // bytes
    bit<32> enq_timestamp;              // microseconds, when put into the egress queue
    bit<19> enq_qdepth;                 // packets in the queue then
    bit<32> deq_timedelta;              // microseconds it stayed there
    bit<19> deq_qdepth;                 // packets in the queue when taken out
    bit<48> ingress_global_timestamp;   // microseconds
    bit<48> egress_global_timestamp;    // microseconds
    bit<16> mcast_grp;                  // not 0: replicate to this multicast group
    bit<16> egress_rid;                 // which replica this is
    bit<1> checksum_error;              // a verify_checksum failed
    error parser_error;
    bit<3> priority;                    // of the egress queue
}

enum CounterType { packets, bytes, packets_and_bytes }
enum MeterType { packets, bytes }
enum CloneType { I2E, E2E }
enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }

#define V1MODEL_METER_COLOR_GREEN 0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED 2

// ---- state

extern counter NETFOLD_INDEXED {
    counter(bit<32> size, CounterType type);
    void count(in NETFOLD_INDEX index);
}

extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

extern meter NETFOLD_INDEXED {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in NETFOLD_INDEX index, out T result);
}

extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

extern register NETFOLD_REGISTER {
    register(bit<32> size);
    void read(out T result, in NETFOLD_INDEX index);
    void write(in NETFOLD_INDEX index, in T value);
}

// ---- indirect actions

extern action_profile {
    action_profile(bit<32> size);
}

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

// ---- functions

extern void random<T>(out T result, in T lo, in T hi);
extern void digest<T>(in bit<32> receiver, in T data);
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

extern void mark_to_drop();
extern void mark_to_drop(inout standard_metadata_t standard_metadata);
extern void truncate(in bit<32> length);

extern void clone(in CloneType type, in bit<32> session);
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
extern void resubmit<T>(in T data);
extern void resubmit_preserving_field_list(bit<8> index);
extern void recirculate<T>(in T data);
extern void recirculate_preserving_field_list(bit<8> index);

extern void assert(in bool check);
extern void assume(in bool check);
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

// ---- checksums

extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

// ---- the pipeline

parser Parser<H, M>(packet_in b, out H parsedHdr, inout M meta, inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr, inout M meta);
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr, inout M meta);
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(
    Parser<H, M> p, VerifyChecksum<H, M> vr, Ingress<H, M> ig, Egress<H, M> eg, ComputeChecksum<H, M> ck,
    Deparser<H> dep);

#undef NETFOLD_INDEX
#undef NETFOLD_INDEXED
#undef NETFOLD_REGISTER

#endif
