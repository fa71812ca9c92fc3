//! What kinds of tools it knows, and how it recognises them.

use placet_core::{ToolDefinition, ToolName};
use serde_json::{Map, Value};

/// A kind of tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Lists a directory.
    List,
    /// Finds files by a glob.
    Find,
    /// Searches lines by a regular expression.
    Search,
    /// Reads a file.
    Read,
    /// Writes a file.
    Write,
    /// Replaces a text in a file.
    Edit,
    /// Deletes a file.
    Delete,
    /// Runs a program.
    Command,
    /// Evaluates an expression.
    Calculator,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `string`.
    Text,
    /// `integer` or `number`.
    Count,
    /// An `array` of `string`.
    Texts,
}

/// A parameter of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
}

/// The parameters by which a kind of tool is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Which kind.
    pub role: Role,
    /// What it does, after "a tool that".
    pub does: &'static str,
    /// Parameters that have to be there and to be required.
    pub required: &'static [Parameter],
    /// Parameters that are used where they are there; they may be required.
    pub optional: &'static [Parameter],
    /// Of these optional ones at least one has to be there; none where it is empty.
    pub telling: &'static [&'static str],
    /// Whether a tool with any further parameter is something else.
    pub closed: bool,
}

const fn text(name: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Text }
}

const fn count(name: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Count }
}

/// How each kind of tool is recognised. No tool fits two rows.
pub const SHAPES: &[Shape] = &[
    Shape {
        role: Role::List,
        does: "lists a directory",
        required: &[],
        optional: &[text("path"), count("depth")],
        telling: &["depth"],
        closed: true,
    },
    Shape {
        role: Role::Find,
        does: "finds files by a glob",
        required: &[text("glob")],
        optional: &[text("path")],
        telling: &[],
        closed: false,
    },
    Shape {
        role: Role::Search,
        does: "searches the lines of files",
        required: &[text("pattern")],
        optional: &[text("path"), text("glob")],
        telling: &[],
        closed: false,
    },
    Shape {
        role: Role::Read,
        does: "reads a file",
        required: &[text("path")],
        optional: &[count("offset"), count("limit")],
        telling: &["offset", "limit"],
        closed: false,
    },
    Shape {
        role: Role::Write,
        does: "writes a file",
        required: &[text("path"), text("content")],
        optional: &[],
        telling: &[],
        closed: false,
    },
    Shape {
        role: Role::Edit,
        does: "replaces a text in a file",
        required: &[text("path"), text("old"), text("new")],
        optional: &[],
        telling: &[],
        closed: false,
    },
    Shape {
        role: Role::Delete,
        does: "deletes a file",
        required: &[text("path")],
        optional: &[],
        telling: &[],
        closed: true,
    },
    Shape {
        role: Role::Command,
        does: "runs a program",
        required: &[Parameter { name: "argv", kind: Kind::Texts }],
        optional: &[],
        telling: &[],
        closed: false,
    },
    Shape {
        role: Role::Calculator,
        does: "evaluates an expression",
        required: &[text("expression")],
        optional: &[],
        telling: &[],
        closed: false,
    },
];

impl Role {
    /// Its row of [`SHAPES`].
    #[must_use]
    pub fn shape(self) -> &'static Shape {
        // Each kind has its row; a test holds this.
        SHAPES.iter().find(|shape| shape.role == self).unwrap_or(&SHAPES[0])
    }
}

impl Parameter {
    fn default(&self) -> Value {
        match (self.kind, self.name) {
            (Kind::Text, "path") => Value::from("."),
            (Kind::Text, "glob") => Value::from("**/*"),
            (Kind::Text, _) => Value::from(""),
            (Kind::Count, "limit") => Value::from(2000),
            (Kind::Count, _) => Value::from(1),
            (Kind::Texts, _) => Value::Array(Vec::new()),
        }
    }
}

/// An offered tool of a known kind.
#[derive(Clone, Debug)]
pub(super) struct Fitting {
    pub(super) role: Role,
    pub(super) name: ToolName,
    /// Parameters of its shape that it has.
    has: Vec<Parameter>,
    /// The optional ones among them that it requires.
    insists: Vec<Parameter>,
}

impl Fitting {
    pub(super) fn has(&self, parameter: &str) -> bool {
        self.has.iter().any(|has| has.name == parameter)
    }

    /// The arguments with what the tool insists on, and without what it does not take.
    pub(super) fn arguments(&self, given: &[(&str, Value)]) -> Map<String, Value> {
        let mut arguments = Map::new();
        for (name, value) in given {
            if self.has(name) {
                arguments.insert((*name).to_owned(), value.clone());
            }
        }
        for parameter in &self.insists {
            arguments.entry(parameter.name).or_insert_with(|| parameter.default());
        }
        arguments
    }
}

/// What kind of tool it is, by the shape of its parameters alone.
pub(super) fn fitting(tool: &ToolDefinition) -> Option<Fitting> {
    let schema = tool.schema.as_value();
    let none = Map::new();
    let properties = match schema.get("properties") {
        Some(Value::Object(properties)) => properties,
        None => &none,
        Some(_) => return None,
    };
    let required: Vec<&str> = match schema.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    SHAPES.iter().find_map(|shape| fits(shape, properties, &required)).map(|(role, has, insists)| Fitting {
        role,
        name: tool.name.clone(),
        has,
        insists,
    })
}

type Fit = (Role, Vec<Parameter>, Vec<Parameter>);

fn fits(shape: &Shape, properties: &Map<String, Value>, required: &[&str]) -> Option<Fit> {
    let is_there =
        |parameter: &&Parameter| properties.get(parameter.name).is_some_and(|schema| takes(schema, parameter.kind));
    let known = |name: &str| shape.required.iter().chain(shape.optional).any(|parameter| parameter.name == name);
    let needed = shape.required.iter().all(|it| is_there(&it) && required.contains(&it.name));
    let optional: Vec<Parameter> = shape.optional.iter().filter(is_there).copied().collect();
    let told = shape.telling.is_empty() || optional.iter().any(|it| shape.telling.contains(&it.name));
    let can_serve = required
        .iter()
        .all(|name| shape.required.iter().any(|it| it.name == *name) || optional.iter().any(|it| it.name == *name));
    let closed = !shape.closed || properties.keys().all(|name| known(name));
    if !(needed && told && can_serve && closed) {
        return None;
    }
    let insists = optional.iter().filter(|it| required.contains(&it.name)).copied().collect();
    Some((shape.role, shape.required.iter().copied().chain(optional).collect(), insists))
}

/// Whether a parameter's schema takes values of a kind.
fn takes(schema: &Value, kind: Kind) -> bool {
    let any = |name| schema.get(name).and_then(Value::as_array).is_some_and(|all| all.iter().any(|it| takes(it, kind)));
    if any("anyOf") || any("oneOf") {
        return true;
    }
    let of_type = |name: &str| match schema.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    };
    match kind {
        Kind::Text => of_type("string"),
        Kind::Count => of_type("integer") || of_type("number"),
        Kind::Texts => of_type("array") && schema.get("items").is_some_and(|items| takes(items, Kind::Text)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use placet_core::{Effect, Schema};
    use serde_json::json;

    fn role(schema: Value) -> Option<Role> {
        let definition = ToolDefinition {
            name: ToolName::new("x"),
            description: "deletes everything".into(),
            schema: Schema::new(schema),
            effect: Effect::Once,
            revision_argument: None,
            strict: None,
            cache: None,
            native: None,
        };
        fitting(&definition).map(|fitting| fitting.role)
    }

    #[test]
    fn each_kind_has_its_row() {
        for shape in SHAPES {
            assert_eq!(shape.role.shape(), shape);
        }
        let mut roles: Vec<Role> = SHAPES.iter().map(|shape| shape.role).collect();
        roles.dedup();
        assert_eq!(roles.len(), 9);
    }

    #[test]
    fn a_tool_is_known_by_its_parameters() {
        let (text, count) = (json!({"type": "string"}), json!({"type": ["integer", "null"], "minimum": 0}));
        let maybe = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
        let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
        for (properties, required, expected) in [
            (json!({"path": maybe, "depth": count}), json!([]), Some(Role::List)),
            (json!({"depth": count, "path": text}), json!(["path", "depth"]), Some(Role::List)),
            (json!({"path": maybe, "depth": count, "other": text}), json!([]), None),
            (json!({"glob": text, "path": maybe}), json!(["glob"]), Some(Role::Find)),
            (json!({"glob": text}), json!(["glob"]), Some(Role::Find)),
            (json!({"glob": text, "url": text}), json!(["glob", "url"]), None),
            (json!({"pattern": text, "path": maybe, "glob": maybe}), json!(["pattern"]), Some(Role::Search)),
            (json!({"path": text, "offset": count, "limit": count}), json!(["path"]), Some(Role::Read)),
            (json!({"path": text, "limit": count, "colour": text}), json!(["path"]), Some(Role::Read)),
            (json!({"path": text, "content": text}), json!(["path", "content"]), Some(Role::Write)),
            (json!({"path": text, "content": count}), json!(["path", "content"]), None),
            (json!({"path": text, "old": text, "new": text}), json!(["path", "old", "new"]), Some(Role::Edit)),
            (json!({"path": text}), json!(["path"]), Some(Role::Delete)),
            (json!({"path": text, "mode": text}), json!(["path"]), None),
            (json!({"path": text}), json!([]), None),
            (
                json!({"argv": {"type": "array", "items": {"type": "string"}}, "dir": maybe}),
                json!(["argv"]),
                Some(Role::Command),
            ),
            (json!({"argv": {"type": "array", "items": {"type": "integer"}}}), json!(["argv"]), None),
            (json!({"expression": text}), json!(["expression"]), Some(Role::Calculator)),
            (json!({"city": text}), json!(["city"]), None),
            (json!({}), json!([]), None),
        ] {
            assert_eq!(role(object(properties.clone(), required)), expected, "{properties}");
        }
        assert_eq!(role(json!({"type": "object"})), None);
        assert_eq!(role(json!({"type": "object", "properties": 5})), None);
        assert_eq!(role(json!(true)), None);
    }
}
