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
const PLAIN: Edns = Edns {
    payload: 1232,
    version: 0,
    dnssec_ok: false,
    wants_nsid: false,
    wants_keepalive: false,
    wants_padding: false,
};
const OPT: &[u8] = b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";

fn parsed(packet: &[u8]) -> Result<(String, u16, u16, Option<Edns>), Reject> {
    parse(packet).map(|query| {
        (
            query.name.to_string(),
            query.rtype.0,
            query.class,
            query.edns,
        )
    })
}

/// Returns a rejection with a response code and the length of the question.
fn rejection(rcode: Rcode, question: usize) -> Reject {
    Reject::With {
        rcode,
        question,
        edns: None,
    }
}

#[test]
fn question_is_read_in_lower_case() {
    let expected = ("db.prod.global.".to_owned(), 1, 1, None);
    assert_eq!(
        parsed(&message(0x0100, [1, 0, 0, 0], QUESTION)),
        Ok(expected)
    );
}

#[test]
fn opt_record_is_read() {
    let edns = Edns {
        dnssec_ok: true,
        ..PLAIN
    };
    let packet = message(0, [1, 0, 0, 1], &[QUESTION, OPT].concat());
    assert_eq!(parsed(&packet).map(|query| query.3), Ok(Some(edns)));
}

#[test]
fn trailing_octets_are_ignored() {
    let packet = message(0, [1, 0, 0, 0], &[QUESTION, b"anything"].concat());
    assert!(parse(&packet).is_ok());
}

#[test]
fn short_messages_and_responses_are_never_answered() {
    assert_eq!(parse(b"").map(|_| ()), Err(Reject::Drop));
    assert_eq!(
        parse(&message(0, [0; 4], b"")[..11]).map(|_| ()),
        Err(Reject::Drop)
    );
    // A response, even a malformed one: answering it can cause loops.
    assert_eq!(
        parse(&message(0x8000, [1, 0, 0, 0], QUESTION)).map(|_| ()),
        Err(Reject::Drop)
    );
    assert_eq!(
        parse(&message(0x8000, [9, 9, 9, 9], b"")).map(|_| ()),
        Err(Reject::Drop)
    );
}

#[test]
fn other_opcodes_are_not_implemented() {
    for opcode in 1..16_u16 {
        let packet = message(opcode << 11, [1, 0, 0, 0], QUESTION);
        assert_eq!(
            parse(&packet).map(|_| ()),
            Err(rejection(Rcode::NOTIMP, QUESTION.len())),
            "{opcode}"
        );
    }
}

#[test]
fn invalid_counts_are_rejected() {
    let rejected = |counts: [u16; 4], rest: &[u8]| parse(&message(0, counts, rest)).map(|_| ());
    for counts in [
        [0, 0, 0, 0],
        [2, 0, 0, 0],
        [65535, 0, 0, 0],
        [65535, 65535, 65535, 65535],
    ] {
        assert_eq!(
            rejected(counts, QUESTION),
            Err(rejection(Rcode::FORMERR, 0)),
            "{counts:?}"
        );
    }
    let (rcode, edns) = (
        Rcode::FORMERR,
        Some(Edns {
            dnssec_ok: true,
            ..PLAIN
        }),
    );
    let rest = [QUESTION, OPT].concat();
    for counts in [
        [1, 1, 0, 0],
        [1, 0, 1, 0],
        [1, 0, 2, 0],
        [1, 0, 0, 3],
        [1, 0, 0, 65535],
    ] {
        let expected = Reject::With {
            rcode,
            question: QUESTION.len(),
            edns,
        };
        assert_eq!(rejected(counts, &rest), Err(expected), "{counts:?}");
    }
    let two = [QUESTION, QUESTION, OPT].concat();
    assert_eq!(
        rejected([2, 0, 0, 1], &two),
        Err(Reject::With {
            rcode,
            question: 0,
            edns
        })
    );
    let ixfr = b"\x06global\x00\x00\xfb\x00\x01\x00\x00\x06\x00\x01\x00\x00\x00\x00\x00\x00";
    let packet = message(0, [1, 0, 1, 0], ixfr);
    assert_eq!(parsed(&packet).map(|q| q.1), Ok(RecordType::IXFR.0));
}

/// Also with a cookie (RFC 7873 section 5.4): replies carry none.
#[test]
fn message_without_question_is_malformed() {
    let plain = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
    let cookie = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x0812345678";
    for opt in [&plain[..], cookie] {
        let rejected = Reject::With {
            rcode: Rcode::FORMERR,
            question: 0,
            edns: Some(PLAIN),
        };
        let asked = parse(&message(0, [0, 0, 0, 1], opt)).map(|_| ());
        assert_eq!(asked, Err(rejected));
    }
}

#[test]
fn malformed_questions_are_rejected() {
    let long = [&[63; 64][..]; 4].concat(); // four labels of 63 octets: 256 with the root
    let cases: [(&str, &[u8]); 8] = [
        ("no name", b""),
        ("no type", b"\x02db\x00"),
        ("half a class", b"\x02db\x00\x00\x01\x00"),
        ("a label beyond the end", b"\x3fdb\x00\x00\x01\x00\x01"),
        ("a pointer", b"\xc0\x0c\x00\x01\x00\x01"),
        ("label type 01", b"\x41a\x00\x00\x01\x00\x01"),
        ("label type 10", b"\x81a\x00\x00\x01\x00\x01"),
        ("too long", &[&long[..], b"\x00\x00\x01\x00\x01"].concat()),
    ];
    for (case, rest) in cases {
        assert_eq!(
            parse(&message(0, [1, 0, 0, 0], rest)).map(|_| ()),
            Err(rejection(Rcode::FORMERR, 0)),
            "{case}"
        );
    }
}

#[test]
fn malformed_opt_records_are_rejected() {
    let overrun = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x08";
    let elsewhere = b"\x01a\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
    let with_do = Edns {
        dnssec_ok: true,
        ..PLAIN
    };
    let cases: [(&str, u16, &[u8], Option<Edns>); 5] = [
        ("missing", 1, b"", None),
        ("truncated", 1, &OPT[..9], None),
        ("not at the root", 1, elsewhere, Some(PLAIN)),
        ("two of them", 2, &[OPT, OPT].concat(), Some(with_do)),
        ("an option beyond the record", 1, overrun, Some(PLAIN)),
    ];
    for (case, count, rest, edns) in cases {
        let packet = message(0, [1, 0, 0, count], &[QUESTION, rest].concat());
        let (rcode, question) = (Rcode::FORMERR, QUESTION.len());
        let expected = Reject::With {
            rcode,
            question,
            edns,
        };
        assert_eq!(parse(&packet).map(|_| ()), Err(expected), "{case}");
    }
}

#[test]
fn options_are_read_and_unknown_ones_ignored() {
    let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x22\
        \x00\x0a\x00\x0812345678\x00\x03\x00\x00\x00\x0b\x00\x00\xff\xff\x00\x04abcd\x00\x0c\x00\x02\x00\x00";
    let packet = message(0, [1, 0, 0, 1], &[QUESTION, &opt[..]].concat());
    let edns = Edns {
        wants_nsid: true,
        wants_keepalive: true,
        wants_padding: true,
        ..PLAIN
    };
    assert_eq!(parsed(&packet).map(|query| query.3), Ok(Some(edns)));
}

#[test]
fn another_version_is_recognized_with_any_options() {
    let packet = |counts: [u16; 4], opcode: u16, question: &[u8]| {
        let opt = b"\x00\x00\x29\x04\xd0\x00\x01\x00\x00\x00\x03abc";
        message(opcode << 11, counts, &[question, &opt[..]].concat())
    };
    let version = |packet: &[u8]| match parse(packet) {
        Ok(query) => (Rcode::NOERROR, query.edns.map(|edns| edns.version)),
        Err(Reject::With { rcode, edns, .. }) => (rcode, edns.map(|edns| edns.version)),
        Err(Reject::Drop) => panic!(),
    };
    assert_eq!(
        version(&packet([1, 0, 0, 1], 0, QUESTION)),
        (Rcode::NOERROR, Some(1))
    );
    // This holds without a question, too (RFC 6891 section 6.1.3). An unknown opcode has priority.
    assert_eq!(
        version(&packet([0, 0, 0, 1], 0, b"")),
        (Rcode::BADVERS, Some(1))
    );
    assert_eq!(
        version(&packet([0, 0, 0, 1], 4, b"")),
        (Rcode::NOTIMP, Some(1))
    );
    assert_eq!(
        version(&packet([1, 0, 0, 1], 4, QUESTION)),
        (Rcode::NOTIMP, Some(1))
    );
    assert_eq!(
        version(&packet([1, 0, 0, 1], 4, b"\xff")),
        (Rcode::NOTIMP, None)
    );
}

#[test]
fn opt_record_is_read_in_any_position_of_the_additional_section_only() {
    let read = |counts: [u16; 4], question: &[u8], records: &[&[u8]]| {
        let packet = message(0, counts, &[question, &records.concat()].concat());
        match parse(&packet) {
            Ok(query) => (Rcode::NOERROR, query.edns.is_some()),
            Err(Reject::With { rcode, edns, .. }) => (rcode, edns.is_some()),
            Err(Reject::Drop) => panic!(),
        }
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
    let seen = (Rcode::NOERROR, true);
    assert_eq!(read(both, QUESTION, &[&key(&name(3)), OPT]), seen);
    assert_eq!(read(both, QUESTION, &[OPT, &key(&name(3))]), seen);
    assert_eq!(read(both, QUESTION, &[&key(b"\xc0\x0c"), OPT]), seen);
    assert_eq!(read(both, QUESTION, &[&key(b"\x01a\xff\xff"), OPT]), seen);
    for name in [&name(4)[..], b"\x40a\x00", b"\x80a\x00"] {
        let malformed = (Rcode::FORMERR, false);
        assert_eq!(read(both, QUESTION, &[&key(name), OPT]), malformed);
    }
    // OPT is invalid in the authority section of an IXFR query.
    let transfer = b"\x06global\x00\x00\xfb\x00\x01";
    let soa = b"\x00\x00\x06\x00\x01\x00\x00\x00\x00\x00\x00";
    assert_eq!(read([1, 0, 1, 1], transfer, &[soa, OPT]), seen);
    assert_eq!(
        read([1, 0, 1, 1], transfer, &[OPT, soa]),
        (Rcode::FORMERR, true)
    );
    assert_eq!(read([1, 0, 1, 2], transfer, &[soa, soa, OPT]), seen);
    assert_eq!(
        read([1, 0, 2, 1], transfer, &[soa, soa, OPT]),
        (Rcode::FORMERR, true)
    );
}

#[test]
fn no_prefix_of_a_query_panics() {
    let packet = message(0, [1, 0, 0, 1], &[QUESTION, OPT].concat());
    for end in 0..packet.len() {
        assert!(parse(&packet[..end]).is_err());
    }
}

proptest::proptest! {
    #[test]
    fn no_packet_panics(packet in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        let _ = parse(&packet);
    }

    #[test]
    fn no_octets_after_a_valid_header_panic(
        counts in [1..2_u16, 0..1, 0..2, 0..3],
        rest in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
    ) {
        let _ = parse(&message(0, counts, &rest));
    }
}
