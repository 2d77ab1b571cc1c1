use super::*;

const EFFECT: &str = "nothing: ";

fn order(text: &str) -> FailoverOrder {
    text.parse().unwrap()
}

/// Reads an order, and returns it as text, with what is wrong with it.
fn read(text: &str) -> (String, Option<String>) {
    let order = FailoverOrder::of_text(text, EFFECT);
    let defect = text.parse::<FailoverOrder>().err();
    (order.to_string(), defect.map(|one| one.to_string()))
}

#[test]
fn order_is_read_kindly() {
    for (text, expected) in [
        (" local : east + west ", "local:east+west"),
        ("west,east", "west:east"),
        ("West:EAST", "west:east"),
        ("Local:*", "local:*"),
        ("west:", "west"),
        ("west : ,", "west"),
        (" Auto, east :*:", "auto:east:*"),
    ] {
        assert_eq!(read(text), (expected.to_owned(), None), "{text}");
        assert_eq!(order(text).to_string(), expected);
    }
}

#[test]
fn unreadable_part_keeps_its_place() {
    for (text, expected, defect) in [
        ("", "''", "step 1 is empty"),
        ("  ", "''", "step 1 is empty"),
        (":", "''", "step 1 is empty"),
        ("east::west", "east:'':west", "step 2 is empty"),
        (":east", "'':east", "step 1 is empty"),
        ("east+:west", "east+'':west", "step 1 is empty"),
        (
            "we_st:east",
            "we_st:east",
            "'we_st' is not the name of a cluster",
        ),
        (
            "east+*",
            "east+*",
            "'*' stands for all other clusters of a failover order, as a step of its own",
        ),
        ("east:west+east", "east:west+east", "'east' occurs twice"),
        ("*:east:*", "*:east:*", "'*' occurs twice"),
        ("auto", "auto:''", "step 1 is empty"),
        (
            "east:auto",
            "east:auto",
            "'auto' begins a failover order, and is no name of a cluster",
        ),
        (
            "auto:auto+east",
            "auto:auto+east",
            "'auto' begins a failover order, and is no name of a cluster",
        ),
        (
            "east=90+west",
            "east=90+west",
            "'east=90' is not the name of a cluster",
        ),
    ] {
        assert_eq!(
            read(text),
            (expected.to_owned(), Some(defect.to_owned())),
            "{text}"
        );
    }
    // The build reports names that cannot be read.
    let defect = |text| FailoverOrder::of_text(text, EFFECT).defect;
    assert_eq!(defect("we_st:east"), None);
    assert_eq!(
        defect("we_st:east:east"),
        Some(format!("{TWICE}'east' occurs twice").into())
    );
    // The typing error is a cluster without endpoints. The standby stays where it is.
    let local: ClusterName = "hub".parse().unwrap();
    let step = |text, cluster: &str| {
        FailoverOrder::of_text(text, EFFECT).step_of(&cluster.parse().unwrap(), &local)
    };
    assert_eq!(step("we_st:east", "east"), Some(1));
    assert_eq!(step("east:east+west", "east"), Some(0));
    assert_eq!(step("*:east:*", "north"), Some(0));
}

/// Each name of an order costs work in every build.
#[test]
fn order_that_is_too_large_is_one_unreadable_step() {
    let names: Vec<String> = (0..33).map(|number| format!("{number:063}")).collect();
    let text = "auto:".to_owned() + &names[..32].join(":");
    assert_eq!(order(&text).count(), 32);
    for (text, expected) in [
        (
            text.clone() + "+33",
            "it has 33 names; at most 32 are allowed",
        ),
        (
            " ".repeat(2561 - text.len()) + &text,
            "it has 2561 octets; at most 2560 are allowed",
        ),
        (
            "east:".repeat(40_000),
            "it has 200000 octets; at most 2560 are allowed",
        ),
    ] {
        let read = FailoverOrder::of_text(&text, EFFECT);
        assert_eq!((read.is_auto, read.count()), (false, 1));
        assert!(read.to_string().len() <= 40);
        assert_eq!(&*read.defect.unwrap(), format!("nothing: {expected}"));
    }
}
