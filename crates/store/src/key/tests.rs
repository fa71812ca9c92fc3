#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use proptest::prelude::*;

fn tenants() -> impl Strategy<Value = Tenant> {
    prop_oneof![Just(Tenant::ACROSS), "[\\x00-\\x02a-b\u{ff}]{0,3}".prop_map(Tenant::new)]
}

fn parts() -> impl Strategy<Value = Vec<KeyPart>> {
    let edge_u64 = prop_oneof![0..3_u64, Just(255), Just(256), any::<u64>()];
    let edge_i64 = prop_oneof![-2..3_i64, Just(i64::MIN), Just(i64::MAX), any::<i64>()];
    let edge_bytes = prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(0xFF), any::<u8>()], 0..5);
    let part = prop_oneof![
        edge_u64.prop_map(KeyPart::U64),
        edge_i64.clone().prop_map(KeyPart::I64),
        edge_i64.prop_map(|micros| KeyPart::Instant(Timestamp::from_micros(micros))),
        "[\\x00\\x01a-b\u{ff}\u{10ffff}]{0,4}".prop_map(KeyPart::Text),
        edge_bytes.prop_map(KeyPart::Bytes),
    ];
    prop::collection::vec(part, 0..4)
}

fn key(tenant: &Tenant, parts: &[KeyPart]) -> Key {
    parts.iter().fold(Key::new(tenant), Key::part)
}

proptest! {
    #[test]
    fn keys_are_ordered_as_tuples_are(a in tenants(), b in tenants(), x in parts(), y in parts()) {
        prop_assert_eq!(key(&a, &x).cmp(&key(&b, &y)), (&a, &x).cmp(&(&b, &y)));
    }

    #[test]
    fn a_key_begins_with_another_exactly_if_the_tuple_does(a in tenants(), x in parts(), y in parts(), extend: bool) {
        let longer: Vec<KeyPart> = if extend { x.iter().chain(&y).cloned().collect() } else { y };
        prop_assert_eq!(key(&a, &longer).starts_with(&key(&a, &x)), longer.starts_with(&x));
    }

    #[test]
    fn what_begins_with_a_prefix_lies_between_it_and_its_end(a in tenants(), b in tenants(), x in parts(), y in parts()) {
        let (prefix, other) = (key(&a, &x), key(&b, &y));
        let inside = other >= prefix && other.as_bytes() < prefix.end_of_prefix().as_slice();
        prop_assert_eq!(inside, other.starts_with(&prefix));
    }

    #[test]
    fn a_key_gives_its_parts_back(a in tenants(), x in parts()) {
        let key = key(&a, &x);
        prop_assert_eq!(key.tenant().unwrap(), a);
        prop_assert_eq!(key.parts().unwrap(), x);
        prop_assert_eq!(Key::from_bytes(key.as_bytes().to_vec()).unwrap(), key);
    }

    #[test]
    fn a_filled_key_is_the_literal_one(x in parts(), y in parts(), number: u64, micros in -9_i64..9) {
        let at = Timestamp::from_micros(micros);
        let span = Duration::from_micros(5);
        let form = y.iter().fold(key(&Tenant::ACROSS, &x).filled().number(AppendRef::nth(0)), KeyForm::part);
        let form = form.now().now_plus(span);
        let literal = y.iter().fold(key(&Tenant::ACROSS, &x).u64(number), Key::part);
        prop_assert_eq!(form.fill(&[number], at), literal.clone().instant(at).instant(at.plus(span)));
        prop_assert_eq!(form.encoded_len(), literal.instant(at).instant(at).as_bytes().len());
    }

    #[test]
    fn any_bytes_are_a_key_or_an_error(bytes: Vec<u8>) {
        let _ = format!("{:?}", Key::stored(bytes.clone()));
        if let Ok(key) = Key::from_bytes(bytes.clone()) {
            prop_assert_eq!(key_again(&key), bytes);
        }
    }
}

fn key_again(key: &Key) -> Vec<u8> {
    let parts = key.parts().unwrap();
    self::key(&key.tenant().unwrap(), &parts).0
}

#[test]
fn a_key_is_shown_as_a_path() {
    let key = Key::new(&Tenant::new("acme")).text("run").u64(7).i64(7).bytes([1, 255]).instant(Timestamp::EPOCH);
    assert_eq!(format!("{key}"), r#""acme"/"run"/7/+7/0x01ff/1970-01-01T00:00:00.000000Z"#);
    assert_eq!(format!("{}", Key::new(&Tenant::ACROSS).text("due")), r#"*/"due""#);
}
