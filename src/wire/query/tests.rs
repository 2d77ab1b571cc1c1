use super::*;

/// Builds a message: header fields, then the octets after the header.
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
    cookie: None,
    server_cookie: None,
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

/// A rejection with a code and that many octets of question.
fn with(rcode: Rcode, question: usize) -> Reject {
    Reject::With {
        rcode,
        question,
        edns: None,
    }
}

#[test]
fn a_question_is_read_in_lower_case() {
    let expected = ("db.prod.global.".to_owned(), 1, 1, None);
    assert_eq!(
        parsed(&message(0x0100, [1, 0, 0, 0], QUESTION)),
        Ok(expected)
    );
}

#[test]
fn an_opt_record_is_read() {
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
fn what_is_never_answered() {
    assert_eq!(parse(b"").map(|_| ()), Err(Reject::Drop));
    assert_eq!(
        parse(&message(0, [0; 4], b"")[..11]).map(|_| ()),
        Err(Reject::Drop)
    );
    // A response, even one that makes no sense: answering it makes loops.
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
            Err(with(Rcode::NOTIMP, QUESTION.len())),
            "{opcode}"
        );
    }
}

#[test]
fn counts_that_no_query_has() {
    let rejected = |counts: [u16; 4], rest: &[u8]| parse(&message(0, counts, rest)).map(|_| ());
    for counts in [
        [0, 0, 0, 0],
        [2, 0, 0, 0],
        [65535, 0, 0, 0],
        [65535, 65535, 65535, 65535],
    ] {
        assert_eq!(
            rejected(counts, QUESTION),
            Err(with(Rcode::FORMERR, 0)),
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

#[test]
fn a_cookie_alone_is_a_question_too() {
    let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x0812345678";
    let edns = Some(Edns {
        cookie: Some(*b"12345678"),
        ..PLAIN
    });
    let asked = parse(&message(0, [0, 0, 0, 1], opt)).map(|_| ());
    assert_eq!(
        asked,
        Err(Reject::With {
            rcode: Rcode::NOERROR,
            question: 0,
            edns
        })
    );
}

#[test]
fn malformed_questions() {
    let long = [&[63; 64][..]; 4].concat(); // four labels of 63 octets: 256 with the root
    let cases: [(&str, &[u8]); 8] = [
        ("no name", b""),
        ("no type", b"\x02db\x00"),
        ("half a class", b"\x02db\x00\x00\x01\x00"),
        ("runs off the end", b"\x3fdb\x00\x00\x01\x00\x01"),
        ("a pointer", b"\xc0\x0c\x00\x01\x00\x01"),
        ("label type 01", b"\x41a\x00\x00\x01\x00\x01"),
        ("label type 10", b"\x81a\x00\x00\x01\x00\x01"),
        ("too long", &[&long[..], b"\x00\x00\x01\x00\x01"].concat()),
    ];
    for (case, rest) in cases {
        assert_eq!(
            parse(&message(0, [1, 0, 0, 0], rest)).map(|_| ()),
            Err(with(Rcode::FORMERR, 0)),
            "{case}"
        );
    }
}

#[test]
fn malformed_opt_records() {
    let overrun = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x08";
    let elsewhere = b"\x01a\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
    let short_cookie = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x05\x00\x0a\x00\x011";
    let with_do = Edns {
        dnssec_ok: true,
        ..PLAIN
    };
    let cases: [(&str, u16, &[u8], Option<Edns>); 6] = [
        ("missing", 1, b"", None),
        ("cut", 1, &OPT[..9], None),
        ("not at the root", 1, elsewhere, Some(PLAIN)),
        ("two of them", 2, &[OPT, OPT].concat(), Some(with_do)),
        ("an option that overruns", 1, overrun, Some(PLAIN)),
        ("a cookie of one octet", 1, short_cookie, Some(PLAIN)),
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
    let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x1c\
        \x00\x0a\x00\x0812345678\x00\x03\x00\x00\x00\x0b\x00\x00\xff\xff\x00\x04abcd";
    let packet = message(0, [1, 0, 0, 1], &[QUESTION, &opt[..]].concat());
    let (wants_nsid, wants_keepalive, cookie) = (true, true, Some(*b"12345678"));
    let edns = Edns {
        wants_nsid,
        wants_keepalive,
        cookie,
        server_cookie: None,
        ..PLAIN
    };
    assert_eq!(parsed(&packet).map(|query| query.3), Ok(Some(edns)));
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
    fn nothing_after_a_sound_header_panics(
        counts in [1..2_u16, 0..1, 0..2, 0..3],
        rest in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
    ) {
        let _ = parse(&message(0, counts, &rest));
    }
}
