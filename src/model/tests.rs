use super::*;

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
