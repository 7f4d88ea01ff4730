// ATP's header (Lao et al., "ATP: In-network Aggregation for Multi-tenant Learning", NSDI 2021, section 3.3), behind
// Ethernet / IPv4 / UDP and before the values of wire.p4.

#ifndef NETFOLD_ATP_P4
#define NETFOLD_ATP_P4

#define ATP_PORT 16w9001

header atp_t {
    bit<8> job;             // from 1
    bit<24> sequence;       // of the job's packets; with the job, what an aggregator is for
    bit<32> bitmap0;        // level 0: the workers of the rack whose values are in, by their number in the rack
    bit<32> bitmap1;        // the children of the server's switch (racks, workers) whose values are in
    bit<8> fan_in0;         // how many workers the rack has, and how many children the server's switch
    bit<8> fan_in1;
    bit<8> level;           // who aggregates next: 0 the rack's switch, 1 the server's
    bit<1> ack;             // the server's answer: the aggregated values, for every worker
    bit<1> resend;          // sent again. Of an ack: for one worker only
    bit<1> collision;       // its aggregator was taken: on to the server as it is
    bit<1> ecn;             // some packet in the values met congestion
    bit<1> saturated;       // some value hit an end of int<32>
    bit<3> reserved;
}

#endif
