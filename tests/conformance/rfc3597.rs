//! RFC 3597: unknown types.

use crate::support::{answer, case, check, nodata, notimp, nxdomain, sample};

#[test]
fn s3_an_unknown_type_is_a_type_like_any_other() {
    check(
        &sample(),
        &[
            case(
                "a name that has others",
                "db.prod.global. TYPE1000",
                nodata(),
            ),
            case(
                "a name that does not exist",
                "nope.prod.global. TYPE1000",
                nxdomain(),
            ),
            case("the apex", "global. TYPE1000", nodata()),
            case("for private use", "db.prod.global. TYPE65280", nodata()),
            case("the last one", "db.prod.global. TYPE65535", nodata()),
            case("the reserved one", "db.prod.global. TYPE0", nodata()),
            case(
                "an unassigned query type",
                "db.prod.global. TYPE200",
                nodata(),
            ),
        ],
    );
}

#[test]
fn s5_a_known_type_may_be_asked_for_by_number() {
    check(
        &sample(),
        &[
            case(
                "A",
                "west.db.prod.global. TYPE1",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case("AAAA", "west.db.prod.global. TYPE28", nodata()),
        ],
    );
}

/// RFC 6895 section 3.1: these are no types of records.
#[test]
fn rfc6895_s3_1_meta_types_are_not_implemented() {
    check(
        &sample(),
        &[
            case("OPT", "global. OPT", notimp()),
            case("TKEY", "global. TKEY", notimp()),
            case("TSIG", "global. TSIG", notimp()),
            case("MAILB", "global. MAILB", notimp()),
            case("MAILA", "global. MAILA", notimp()),
            case("the type next to them", "global. TYPE248", nodata()),
        ],
    );
}
