// The wire format: every header that netfold's packets carry. The one source of it: the emulator's and the
// simulator's structs are derived from here through p4.lang.
//
// Ethernet / IPv4 / UDP (destination port 9000) / aggregation / values, 182 bytes without the FCS. ECN is IP's.

#ifndef NETFOLD_WIRE_P4
#define NETFOLD_WIRE_P4

#define ETHERTYPE_IPV4 16w0x0800
#define PROTOCOL_UDP 8w17
#define AGGREGATION_PORT 16w9000
#define VALUES_PER_PACKET 30

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;             // 0 not capable, 1 and 2 capable, 3 congestion experienced (RFC 3168)
    bit<16> length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;       // 0: none. The switch changes values, so it could not keep one cheaply.
}

enum bit<8> packet_type_t {
    upload = 1,             // a vertex's chunk from its worker: to be added for each neighbour in the block
    partial = 2,            // a sum for one vertex, from a leaf or (presum) from a worker
    result = 3,             // the complete sum, to the vertex's owner
    direct = 4,             // a chunk between workers that no switch touches: bypassed or pulled
    pull = 5,               // an owner asks a worker for a chunk
    done = 6,               // a worker has finished a block
    complete = 7,           // all workers have: go on with the next block
    load = 8,               // words of a block's adjacency, for the switch
    cnp = 9                 // a receiver asks a sender to slow down: its packets met congestion (DCQCN)
}

header aggregation_t {
    packet_type_t type;
    bit<1> resend;          // a retransmission: never added
    bit<1> bypass;          // not to be aggregated
    bit<1> pull;            // the answer to a pull
    bit<1> saturated;       // some value hit an end of int<32>
    bit<4> reserved;
    bit<8> job;
    bit<8> level;           // aggregation level: 0 from a host, 1 from a leaf
    bit<16> block;          // of the plan
    bit<16> round;          // the propagation's number
    bit<32> vertex;         // its slot in the block. load: the index of the first word
    bit<16> chunk;          // load: which array
    bit<16> worker;         // the sender; of a result: the owner
    bit<32> count;          // contributions in the values. load: number of words
}

header values_t {
    int<32> v0;  int<32> v1;  int<32> v2;  int<32> v3;  int<32> v4;  int<32> v5;
    int<32> v6;  int<32> v7;  int<32> v8;  int<32> v9;  int<32> v10; int<32> v11;
    int<32> v12; int<32> v13; int<32> v14; int<32> v15; int<32> v16; int<32> v17;
    int<32> v18; int<32> v19; int<32> v20; int<32> v21; int<32> v22; int<32> v23;
    int<32> v24; int<32> v25; int<32> v26; int<32> v27; int<32> v28; int<32> v29;
}

#endif
