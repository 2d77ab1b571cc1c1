use super::*;

#[test]
fn rules_reasons_and_kinds_have_their_public_names() {
    for (value, rule) in [
        ("last-resort", Some(GatewayDown::LastResort)),
        ("include", Some(GatewayDown::Include)),
        ("Include", Some(GatewayDown::Include)),
        ("exclude", None),
        ("", None),
    ] {
        assert_eq!(value.parse().ok(), rule, "{value}");
    }
    let skips = || ProblemKind::of_family(Family::Skipped);
    let expected = [
        "unusable-object",
        "no-parent",
        "namespace-mismatch",
        "left-out",
    ];
    assert_eq!(skips().map(ProblemKind::name).collect::<Vec<_>>(), expected);
    let intended = skips().filter(|kind| kind.row().level == Level::Note);
    assert_eq!(intended.collect::<Vec<_>>(), [ProblemKind::LeftOut]);
    let key = ObjectKey::new("prod", "db-0-west");
    let kinds = [Kind::Service, Kind::EndpointSlice, Kind::Link];
    let named = kinds.map(|kind| {
        ObjectRef {
            kind,
            key: key.clone(),
        }
        .to_string()
    });
    assert_eq!(
        named,
        [
            "Service/prod/db-0-west",
            "EndpointSlice/prod/db-0-west",
            "Link/prod/db-0-west"
        ]
    );
}

#[test]
fn own_service_has_the_name_of_its_object() {
    let key = ServiceKey {
        namespace: "prod".parse().unwrap(),
        service: "db".parse().unwrap(),
    };
    assert_eq!(ObjectKey::of_service(&key).own_service(), Some(key));
    assert_eq!(ObjectKey::new("prod", "db_1").own_service(), None);
}

#[test]
fn time_is_written_to_the_second_or_millisecond() {
    let time = Timestamp(1_790_000_000_007);
    assert_eq!(time.to_text(), "2026-09-21T14:13:20Z");
    assert_eq!(time.to_exact_text(), "2026-09-21T14:13:20.007Z");
}
