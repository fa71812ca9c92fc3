//! Examples in descriptions: models copy the syntax they are shown, so what looks like JSON has to be JSON.

use serde_json::Value;

/// Every example in `text` that looks like JSON and is none, with what is wrong.
///
/// An array looks like one when it opens with a value and holds a quotation mark or a comma; an object when it opens
/// with a quotation mark.
pub(crate) fn bad_examples(text: &str) -> Vec<(String, String)> {
    let mut bad = Vec::new();
    let mut from = 0;
    while let Some(offset) = text[from..].find(['[', '{']) {
        let start = from + offset;
        from = start + 1;
        let Some(end) = closing(&text[start..]) else { continue };
        let example = &text[start..start + end];
        if !looks_like_json(example) {
            continue;
        }
        if let Err(error) = serde_json::from_str::<Value>(example) {
            bad.push((example.chars().take(120).collect(), error.to_string()));
        }
        from = start + end;
    }
    bad
}

/// The same for every description within a schema.
pub(crate) fn bad_examples_within(schema: &Value, bad: &mut Vec<(String, String)>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == "description" => bad.extend(bad_examples(text)),
                    other => bad_examples_within(other, bad),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| bad_examples_within(item, bad)),
        _ => {}
    }
}

fn looks_like_json(example: &str) -> bool {
    let inner = example[1..].trim_start();
    let Some(first) = inner.chars().next() else { return false };
    if example.starts_with('{') {
        return matches!(first, '"' | '\'' | '\u{201c}');
    }
    let opens = matches!(first, '"' | '\'' | '\u{201c}' | '[' | '{' | '-') || first.is_ascii_digit();
    opens && inner.contains(['"', '\'', ',', '\u{201c}'])
}

/// Where the bracket that `text` opens with is closed, brackets within texts not counted.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quoted = false;
    let mut escaped = false;
    for (place, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return Some(place + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_broken_examples_are_found() {
        for fine in [
            "Give a path such as [\"a\", \"b\"] or [].",
            "Returns {\"dx\": 1, \"dy\": [0, 1]}.",
            "A pattern like [a-z0-9] or [0-9]+, see [1]; {name} is filled in.",
            "one of -1, 0 (a [draft] note)",
            "an open [\"bracket",
        ] {
            assert_eq!(bad_examples(fine), [], "{fine}");
        }
        for (broken, example) in [
            ("a key path such as [\"a\" \"b\"]", "[\"a\" \"b\"]"),
            ("for example ['a', 'b'].", "['a', 'b']"),
            ("for example [1, 2, ...].", "[1, 2, ...]"),
            ("{'dx': 1} moves", "{'dx': 1}"),
            ("[[1, 2] [3, 4]]", "[[1, 2] [3, 4]]"),
        ] {
            let found = bad_examples(broken);
            assert_eq!(found.iter().map(|(example, _)| example.as_str()).collect::<Vec<_>>(), [example]);
        }
    }
}
