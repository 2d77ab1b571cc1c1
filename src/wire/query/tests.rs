use super::*;

/// Builds a message from header fields and the octets after the header.
fn message(flags: u16, counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x12, 0x34];
    packet.extend(flags.to_be_bytes());
    counts
        .iter()
        .for_each(|count| packet.extend(count.to_be_bytes()));
    packet.extend(rest);
    packet
}

const QUESTION: &[u8] = b"\x02dB\x04Prod\x06global\x00\x00\x01\x00\x01";
const OPT: &[u8] = b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";

#[test]
fn opt_record_is_read_in_any_position_of_the_additional_section_only() {
    let read = |counts: [u16; 4], question: &[u8], records: &[&[u8]]| {
        let packet = message(0, counts, &[question, &records.concat()].concat());
        let Message { edns, query, .. } = parse(&packet).unwrap();
        (query.err().unwrap_or(Rcode::NoError), edns.is_some())
    };
    // A TSIG record with a name of maximum length, with a longer name, and with a compressed name.
    let key = |name: &[u8]| [name, b"\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x02ab"].concat();
    let name = |last: u8| {
        let mut name = b"\x01a".repeat(125);
        name.push(last);
        name.extend(vec![b'a'; usize::from(last)]);
        name.push(0);
        name
    };
    assert_eq!((name(3).len(), name(4).len()), (255, 256));
    let both = [1, 0, 0, 2];
    let seen = (Rcode::NoError, true);
    assert_eq!(read(both, QUESTION, &[&key(&name(3)), OPT]), seen);
    assert_eq!(read(both, QUESTION, &[OPT, &key(&name(3))]), seen);
    assert_eq!(read(both, QUESTION, &[&key(b"\xc0\x0c"), OPT]), seen);
    assert_eq!(read(both, QUESTION, &[&key(b"\x01a\xff\xff"), OPT]), seen);
    for name in [&name(4)[..], b"\x40a\x00", b"\x80a\x00"] {
        let malformed = (Rcode::FormErr, false);
        assert_eq!(read(both, QUESTION, &[&key(name), OPT]), malformed);
    }
    // OPT is invalid in the authority section of an IXFR query.
    let transfer = b"\x06global\x00\x00\xfb\x00\x01";
    let soa = b"\x00\x00\x06\x00\x01\x00\x00\x00\x00\x00\x00";
    assert_eq!(read([1, 0, 1, 1], transfer, &[soa, OPT]), seen);
    assert_eq!(
        read([1, 0, 1, 1], transfer, &[OPT, soa]),
        (Rcode::FormErr, true)
    );
    assert_eq!(read([1, 0, 1, 2], transfer, &[soa, soa, OPT]), seen);
    assert_eq!(
        read([1, 0, 2, 1], transfer, &[soa, soa, OPT]),
        (Rcode::FormErr, true)
    );
}

#[test]
fn no_prefix_of_a_query_panics() {
    let packet = message(0, [1, 0, 0, 1], &[QUESTION, OPT].concat());
    for end in 0..packet.len() {
        assert!(parse(&packet[..end]).is_none_or(|message| message.query.is_err()));
    }
}
