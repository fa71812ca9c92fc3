//! A client's body, with only what changed put into it.
//!
//! A decoded request that goes on to a provider of its own protocol keeps the client's own bytes wherever nothing was
//! changed, whatever they hold: unknown fields, spellings, the order of keys. So the request is encoded twice, as it was
//! decoded and as it is now, and the difference between the two is applied to the body.

use serde_json::{Map, Value};

/// `body` with the difference between `before` and `after` applied. Where both are equal it is the body itself.
///
/// Objects are compared key by key. Lists are compared by the elements that they share, in their order; what lies between
/// those is compared in place where it is as long as before, and else replaced. A list whose encoding has another length than
/// the body's, or whose entries are not the body's in their order (another role, id, name or text), is replaced whole as soon
/// as anything in it changes, because its places cannot be told. A text that stands for a list of that one text stays one,
/// and the other way round.
#[must_use]
pub fn overlay(body: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return body.clone();
    }
    match (body, before, after) {
        (Value::Object(body), Value::Object(before), Value::Object(after)) => {
            Value::Object(object(body, before, after))
        }
        (Value::Array(body), Value::Array(before), Value::Array(after)) if is_in_order(body, before) => {
            Value::Array(list(body, before, after))
        }
        (Value::String(body), before @ Value::Array(_), after @ Value::Array(_)) if lone_text(before) == Some(body) => {
            lone_text(after).map_or_else(|| after.clone(), Value::from)
        }
        (Value::Array(entries), Value::String(before), Value::String(after)) if lone_text(body) == Some(before) => {
            let mut entries = entries.clone();
            entries.iter_mut().for_each(|entry| entry["text"] = after.as_str().into());
            Value::Array(entries)
        }
        _ => after.clone(),
    }
}

/// What tells one entry of a list from another.
const IDENTITY: [&str; 8] = ["type", "role", "id", "call_id", "tool_use_id", "tool_call_id", "name", "text"];

/// Whether the entries of `before` are those of `body`, one by one.
fn is_in_order(body: &[Value], before: &[Value]) -> bool {
    let is_same = |body: &Value, before: &Value| {
        IDENTITY.iter().all(|key| match (body.get(key), before.get(key)) {
            (Some(Value::String(body)), Some(Value::String(before))) => body == before,
            _ => true,
        })
    };
    body.len() == before.len() && body.iter().zip(before).all(|(body, before)| is_same(body, before))
}

/// The text of a list that holds nothing else.
fn lone_text(value: &Value) -> Option<&str> {
    let [Value::Object(entry)] = value.as_array()?.as_slice() else { return None };
    let is_plain = entry.keys().all(|key| key == "type" || key == "text");
    entry.get("text").filter(|_| is_plain).and_then(Value::as_str)
}

fn object(body: &Map<String, Value>, before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::with_capacity(body.len());
    for (key, value) in body {
        match (before.get(key), after.get(key)) {
            (Some(before), Some(after)) => out.insert(key.clone(), overlay(value, before, after)),
            // Taken away.
            (Some(_), None) => None,
            // The encoder had nothing to say of it and now has.
            (None, Some(after)) => out.insert(key.clone(), after.clone()),
            (None, None) => out.insert(key.clone(), value.clone()),
        };
    }
    for (key, value) in after {
        if !body.contains_key(key) && before.get(key) != Some(value) {
            out.insert(key.clone(), value.clone());
        }
    }
    out
}

fn list(body: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let places = after.iter().zip(origins(before, after));
    places
        .map(|(after, place)| place.map_or_else(|| after.clone(), |at| overlay(&body[at], &before[at], after)))
        .collect()
}

/// Where in `before` each element of `after` comes from: what both share keeps its place, and what lies between is matched in
/// place where it is as long as before.
pub(crate) fn origins(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let mut origins: Vec<Option<usize>> = Vec::with_capacity(after.len());
    let head = before.iter().zip(after).take_while(|(before, after)| before == after).count();
    origins.extend((0..head).map(Some));
    let most = before.len().min(after.len()) - head;
    let tail = before.iter().rev().zip(after.iter().rev()).take(most).take_while(|(b, a)| b == a).count();
    let (old_end, new_end) = (before.len() - tail, after.len() - tail);
    let mut at = head;
    while origins.len() < new_end {
        // The next element that both share, and what comes before it on either side.
        let start = origins.len();
        let shared = (start..new_end).find_map(|new| {
            let old = before[at..old_end].iter().position(|before| *before == after[new])?;
            Some((at + old, new))
        });
        let (old, new) = shared.unwrap_or((old_end, new_end));
        let is_in_place = old - at == new - start;
        origins.extend((0..new - start).map(|step| is_in_place.then_some(at + step)));
        if shared.is_some() {
            origins.push(Some(old));
        }
        at = (old + 1).min(old_end);
    }
    origins.extend((old_end..before.len()).map(Some));
    origins
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn only_what_changed_is_changed() {
        let body = json!({"model": "a", "odd": 1, "messages": [{"role": "user", "content": "x", "odd": 2}, {"role": "user", "content": [{"text": "y"}]}]});
        let before =
            json!({"model": "a", "messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]});
        let mut after = before.clone();
        after["messages"][0]["content"] = "z".into();
        let mut expected = body.clone();
        expected["messages"][0]["content"] = "z".into();
        assert_eq!(overlay(&body, &before, &after), expected);

        let mut longer = before.clone();
        longer["messages"].as_array_mut().into_iter().for_each(|list| list.push(json!({"role": "assistant"})));
        longer["tools"] = json!([1]);
        let mut expected = body.clone();
        expected["messages"].as_array_mut().into_iter().for_each(|list| list.push(json!({"role": "assistant"})));
        expected["tools"] = json!([1]);
        assert_eq!(overlay(&body, &before, &longer), expected);
    }

    #[test]
    fn a_text_stays_a_text_and_a_list_a_list() {
        let list = |text: &str| json!([{"type": "text", "text": text}]);
        assert_eq!(overlay(&json!("a"), &list("a"), &list("b")), json!("b"));
        assert_eq!(overlay(&list("a"), &json!("a"), &json!("b")), list("b"));
        let two = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(overlay(&json!("a"), &list("a"), &two), two);
    }

    #[test]
    fn what_is_changed_is_never_written_over_something_else() {
        let body = json!([{"id": "2", "odd": 1}, {"id": "1", "content": "x"}]);
        let before = json!([{"id": "1", "content": "x"}, {"id": "2"}]);
        let after = json!([{"id": "1", "content": "y"}, {"id": "2"}]);
        assert_eq!(overlay(&body, &before, &after), after);
    }

    #[test]
    fn what_was_taken_away_is_gone() {
        let body = json!({"a": 1, "b": {"c": 1, "odd": 2}, "list": [{"odd": 1}, {"odd": 2}, {"odd": 3}]});
        let before = json!({"a": 1, "b": {"c": 1}, "list": [1, 2, 3]});
        let after = json!({"b": {}, "list": [1, 3]});
        assert_eq!(overlay(&body, &before, &after), json!({"b": {"odd": 2}, "list": [{"odd": 1}, {"odd": 3}]}));
    }

    #[test]
    fn a_list_that_grew_at_several_places_keeps_what_it_had() {
        let body = json!([{"n": 1, "odd": 1}, {"n": 2, "odd": 2}, {"n": 3, "odd": 3}]);
        let before = json!([{"n": 1}, {"n": 2}, {"n": 3}]);
        let after = json!([{"n": 0}, {"n": 1}, {"n": 5}, {"n": 6}, {"n": 3}, {"n": 4}]);
        let expected = json!([{"n": 0}, {"n": 1, "odd": 1}, {"n": 5}, {"n": 6}, {"n": 3, "odd": 3}, {"n": 4}]);
        assert_eq!(overlay(&body, &before, &after), expected);
        let changed = json!([{"n": 0}, {"n": 1}, {"n": 7}, {"n": 3}]);
        let expected = json!([{"n": 0}, {"n": 1, "odd": 1}, {"n": 7, "odd": 2}, {"n": 3, "odd": 3}]);
        assert_eq!(overlay(&body, &before, &changed), expected);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0i64..4).prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn an_unchanged_request_is_the_body(body in json_value(), before in json_value()) {
            prop_assert_eq!(overlay(&body, &before, &before), body);
        }

        #[test]
        fn a_body_that_is_its_own_encoding_becomes_the_new_one(body in json_value(), after in json_value()) {
            prop_assert_eq!(overlay(&body, &body, &after), after);
        }
    }
}
