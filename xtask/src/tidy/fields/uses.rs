//! Finds where strings are used as names of fields: in indexes, and as arguments of functions that index with
//! them.

use std::collections::BTreeMap;

use super::calls::{Call, is_index, outermost};
use super::functions::{Function, NameForm, functions};
use super::variables::element_variables;
use crate::tidy::tokens::{SourceToken, TokenKind, arguments, closing};

/// Methods of JSON values, of maps and of paths in messages. Their first argument names fields.
const METHODS: [(&str, NameForm); 13] = [
    ("child", NameForm::Field),
    ("contains_key", NameForm::Field),
    ("entry", NameForm::Field),
    ("get", NameForm::Field),
    ("get_key_value", NameForm::Field),
    ("get_mut", NameForm::Field),
    ("insert", NameForm::Field),
    ("pointer", NameForm::Pointer),
    ("pointer_mut", NameForm::Pointer),
    ("remove", NameForm::Field),
    ("remove_entry", NameForm::Field),
    ("shift_remove", NameForm::Field),
    ("swap_remove", NameForm::Field),
];

/// Receivers of these methods whose keys are not fields.
const OTHER_MAPS: [&str; 2] = ["headers", "query"];

/// Functions and variants that store names of fields for later. All other functions are found by their code.
/// Directory, function or its qualifier, number of the argument, form.
const TABLES: [(&str, &str, usize, NameForm); 14] = [
    ("crates/columns/", "Cell", 0, NameForm::Dotted),
    ("crates/defaults/src/rules", "fields", 1, NameForm::Field),
    ("crates/merge/src/apply", "of_path", 0, NameForm::Field),
    ("crates/merge/src/apply", "has", 0, NameForm::Field),
    ("crates/merge/src/apply.rs", "remove", 0, NameForm::Field),
    ("crates/registry/src/reset_fields.rs", "ResetFields", 0, NameForm::Field),
    ("crates/registry/src/strategy", "counted", 1, NameForm::Dotted),
    ("crates/registry/src/strategy", "field", 0, NameForm::Dotted),
    ("crates/registry/src/views/autoscalers/metrics.rs", "field", 1, NameForm::Pointer),
    ("crates/validation/src/pod/volume.rs", "plain", 0, NameForm::Field),
    ("crates/validation/src/volume/sources.rs", "plain", 0, NameForm::Field),
    ("crates/validation/src/volume/sources.rs", "plain", 1, NameForm::Field),
    ("crates/validation/src/volume/sources.rs", "source", 0, NameForm::Field),
    ("crates/validation/src/volume/sources.rs", "source", 1, NameForm::Field),
];

/// A file of the product without its tests.
pub struct ProductFile<'a> {
    pub path: &'a str,
    pub tokens: Vec<SourceToken<'a>>,
}

impl ProductFile<'_> {
    fn crate_name(&self) -> &str {
        self.path.split("/src/").next().unwrap_or(self.path)
    }

    /// The name of the module: `pods` of `src/kinds/pods.rs`.
    fn module(&self) -> &str {
        let stem = self.path.strip_suffix(".rs").unwrap_or(self.path);
        stem.rsplit('/').next().unwrap_or(stem)
    }
}

/// A string that is used as the name of a field or as a path of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldUse<'a> {
    pub form: NameForm,
    pub text: &'a str,
    pub line: usize,
}

/// All functions and constants of the product, with the forms of parameters.
pub struct Functions<'a> {
    files: &'a [ProductFile<'a>],
    all: Vec<Function<'a>>,
    by_name: BTreeMap<&'a str, Vec<usize>>,
    /// File and position of each word that may be a constant.
    constants: BTreeMap<&'a str, Vec<(usize, usize)>>,
}

impl<'a> Functions<'a> {
    /// Reads all functions, and follows their parameters to the indexes that use them.
    pub fn new(files: &'a [ProductFile<'a>]) -> Self {
        let all: Vec<Function<'a>> =
            files.iter().enumerate().flat_map(|(file, source)| functions(file, &source.tokens)).collect();
        let mut by_name = BTreeMap::<&str, Vec<usize>>::new();
        for (index, function) in all.iter().enumerate() {
            by_name.entry(function.name).or_default().push(index);
        }
        let mut constants = BTreeMap::<&str, Vec<(usize, usize)>>::new();
        for (file, source) in files.iter().enumerate() {
            for (at, token) in source.tokens.iter().enumerate() {
                if token.is_word() && token.text.starts_with(|initial: char| initial.is_ascii_uppercase()) {
                    constants.entry(token.text).or_default().push((file, at));
                }
            }
        }
        let mut found = Functions { files, all, by_name, constants };
        // A function may pass its parameter on to one that is found later.
        while found.follow() {}
        found
    }

    /// Finds forms of more parameters. Returns whether there were any.
    fn follow(&mut self) -> bool {
        let mut more = Vec::new();
        for (index, function) in self.all.iter().enumerate() {
            for (place, parameter) in function.parameters.iter().enumerate() {
                if parameter.is_empty() || function.forms[place].is_some() {
                    continue;
                }
                let (start, end) = function.body;
                if let Some(form) = self.form_of(function.file, parameter, start, end) {
                    more.push((index, place, form));
                }
            }
        }
        for (index, place, form) in &more {
            self.all[*index].forms[*place] = Some(*form);
        }
        !more.is_empty()
    }

    /// Returns the form of a variable if the code between two tokens of a file uses it as the name of a field.
    fn form_of(&self, file: usize, variable: &str, start: usize, end: usize) -> Option<NameForm> {
        let tokens = &self.files[file].tokens;
        let is_variable = |at: &usize| tokens[*at].is(variable) && *at > 0 && !tokens[at - 1].is(".");
        (start..end.min(tokens.len())).filter(is_variable).find_map(|at| self.form_at(file, at, end))
    }

    /// Returns the form of the variable at a position, if it is used as the name of a field there, or the code up to
    /// `end` uses its elements.
    fn form_at(&self, file: usize, at: usize, end: usize) -> Option<NameForm> {
        let tokens = &self.files[file].tokens;
        if let Some(form) = self.direct_form(file, at, at + 1) {
            return Some(form);
        }
        let next = tokens[at + 1..].iter().take(4).map(|token| token.text);
        if next.eq([".", "split", "(", "'.'"]) {
            return Some(NameForm::Dotted);
        }
        let elements = element_variables(tokens, at, at + 1);
        let other = elements.names.first().filter(|name| **name != tokens[at].text)?;
        self.form_of(file, other, elements.start, elements.end.min(end))
    }

    /// Returns the form of the literal, list or variable between two tokens, if it is an index or an argument that
    /// names fields.
    fn direct_form(&self, file: usize, start: usize, end: usize) -> Option<NameForm> {
        let tokens = &self.files[file].tokens;
        let before = tokens[..start].iter().rposition(|token| !token.is("&") && !token.is("*"))?;
        let next = tokens.get(end)?;
        if tokens[before].is("[") && next.is("]") {
            return is_index(tokens, before).then_some(NameForm::Field);
        }
        // An argument is alone, or is only converted: `name.to_owned()`.
        let conversions = ["to_owned", "into", "to_string", "clone"];
        let is_converted = next.is(".")
            && tokens.get(end + 1).is_some_and(|method| conversions.iter().any(|name| method.is(name)))
            && tokens.get(end + 4).is_some_and(|after| after.is(",") || after.is(")"));
        if !next.is(",") && !next.is(")") && !is_converted {
            return None;
        }
        let (call, place) = Call::around(tokens, start)?;
        self.argument_form(file, &call, place)
    }

    fn argument_form(&self, file: usize, call: &Call<'_, 'a>, place: usize) -> Option<NameForm> {
        let own = &self.files[file];
        let is_table = |(directory, name, number, _): &&(&str, &str, usize, NameForm)| {
            own.path.starts_with(directory)
                && (call.name == *name || call.qualifier == Some(name))
                && place == *number
        };
        if let Some((_, _, _, form)) = TABLES.iter().find(is_table) {
            return Some(*form);
        }
        if let Some((_, form)) = METHODS.iter().find(|(name, _)| call.is_method && *name == call.name) {
            let is_list = call.arguments[0].iter().any(|token| token.is("["));
            let is_name = place == 0 && !is_list && !OTHER_MAPS.contains(&call.receiver(&own.tokens));
            return is_name.then_some(*form);
        }
        let mut forms = self.candidates(file, call).into_iter().map(|function| function.forms[place]);
        let first = forms.next()??;
        forms.all(|form| form == Some(first)).then_some(first)
    }

    /// Returns the functions that a call may mean: closures of the same block come before functions of the same
    /// file, those before functions of the same crate, and those before others.
    fn candidates(&self, file: usize, call: &Call<'_, '_>) -> Vec<&Function<'a>> {
        let named = self.by_name.get(call.name).into_iter().flatten().map(|index| &self.all[*index]);
        let fits = |function: &&Function<'_>| {
            function.is_method == call.is_method && function.parameters.len() == call.arguments.len()
        };
        let (closures, all): (Vec<_>, Vec<_>) =
            named.filter(fits).partition(|function| function.scope.is_some());
        let in_scope = |function: &&&Function<'_>| {
            function.file == file
                && call.qualifier.is_none()
                && function.scope.as_ref().is_some_and(|scope| scope.contains(&call.position))
        };
        if let Some(closure) = closures.iter().rfind(in_scope) {
            return vec![closure];
        }
        let own = &self.files[file];
        let is_qualified = |function: &&Function<'_>| match call.qualifier {
            Some("Self" | "self" | "super" | "crate") | None => true,
            Some(name) => function.of_type == Some(name) || self.files[function.file].module() == name,
        };
        let nearness: [&dyn Fn(&Function<'_>) -> bool; 3] = [
            &|function| function.file == file,
            &|function| self.files[function.file].crate_name() == own.crate_name(),
            &|function| function.is_public,
        ];
        let mut near = nearness.iter().map(|is_near| {
            all.iter().copied().filter(is_qualified).filter(|function| is_near(function)).collect::<Vec<_>>()
        });
        near.find(|functions| !functions.is_empty()).unwrap_or_default()
    }

    /// Returns the functions in `TABLES` that their files do not call, with these files.
    pub fn uncalled_tables(&self) -> Vec<(&'static str, &'static str)> {
        let calls = |tokens: &[SourceToken<'_>], name: &str| {
            tokens.windows(3).any(|window| {
                !window[0].is("fn") && window[1].is(name) && (window[2].is("(") || window[2].is(":"))
            })
        };
        let is_called = |directory: &str, name: &str| {
            self.files.iter().any(|file| file.path.starts_with(directory) && calls(&file.tokens, name))
        };
        let all = TABLES.iter().map(|(directory, name, _, _)| (*directory, *name));
        all.filter(|(directory, name)| !is_called(directory, name)).collect()
    }

    /// Returns all strings of a file that name fields.
    pub fn uses(&self, file: usize) -> Vec<FieldUse<'a>> {
        let tokens = &self.files[file].tokens;
        let mut found = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            match token.kind {
                TokenKind::Text => {
                    let form = self.direct_form(file, at, at + 1);
                    found.extend(form.map(|form| FieldUse { form, text: token.text, line: token.line }));
                }
                TokenKind::Mark if token.text == "[" => found.extend(self.list(file, at)),
                _ => {}
            }
        }
        found.extend(self.constants(file));
        // A list in a constant can be an argument as well.
        found.sort_by_key(|used| used.text.as_ptr());
        found.dedup_by_key(|used| used.text.as_ptr());
        found
    }

    /// Returns the strings of a list that is an argument, or whose elements are used as names.
    fn list(&self, file: usize, opening: usize) -> Vec<FieldUse<'a>> {
        let tokens = &self.files[file].tokens;
        let is_literal = |first: &SourceToken<'_>| first.kind == TokenKind::Text || first.is("(");
        if !tokens.get(opening + 1).is_some_and(is_literal) || is_index(tokens, opening) {
            return Vec::new();
        }
        let outer = outermost(tokens, opening);
        if let Some(form) = self.direct_form(file, outer, closing(tokens, outer)) {
            return literals(tokens, opening, 0, form);
        }
        let variables = element_variables(tokens, opening, closing(tokens, opening));
        let mut found = Vec::new();
        for (place, variable) in variables.names.iter().enumerate() {
            if let Some(form) = self.form_of(file, variable, variables.start, variables.end) {
                found.extend(literals(tokens, opening, place, form));
            }
        }
        found
    }

    /// Returns the strings of the constants of a file that its crate uses as names of fields.
    fn constants(&self, file: usize) -> Vec<FieldUse<'a>> {
        let tokens = &self.files[file].tokens;
        let mut found = Vec::new();
        for at in 1..tokens.len() {
            if !tokens[at - 1].is("const") && !tokens[at - 1].is("static") {
                continue;
            }
            let Some(form) = self.constant_form(file, at) else { continue };
            let Some(value) = tokens[at..].iter().position(|token| token.is("=")) else { continue };
            let value = at + value + 1;
            let end = value + tokens[value..].iter().position(|token| token.is(";")).unwrap_or(0);
            match &tokens[value..end] {
                [token] if token.kind == TokenKind::Text => {
                    found.push(FieldUse { form, text: token.text, line: token.line });
                }
                _ => {
                    let brackets = (value..end).filter(|at| tokens[*at].is("["));
                    found.extend(brackets.flat_map(|bracket| literals(tokens, bracket, 0, form)));
                }
            }
        }
        found
    }

    /// Returns the form of the constant whose definition has its name at a position.
    fn constant_form(&self, file: usize, at: usize) -> Option<NameForm> {
        let source = &self.files[file];
        let is_private = at < 2 || !source.tokens[at - 2].is("pub") && !source.tokens[at - 2].is(")");
        let of_crate = |(other, _): &&(usize, usize)| {
            *other == file || !is_private && self.files[*other].crate_name() == source.crate_name()
        };
        let places: Vec<&(usize, usize)> =
            self.constants.get(source.tokens[at].text)?.iter().filter(of_crate).collect();
        // Several constants can have one name.
        let is_definition = |(other, place): &(usize, usize)| {
            let tokens = &self.files[*other].tokens;
            *place > 0 && (tokens[place - 1].is("const") || tokens[place - 1].is("static"))
        };
        let is_unique = places.iter().filter(|place| is_definition(place)).count() == 1;
        let mut own = places.iter().filter(|(other, _)| *other == file || is_unique);
        let value = source.tokens[at..].iter().find(|token| token.is("[") || token.is("="))?;
        own.find_map(|(other, place)| {
            let tokens = &self.files[*other].tokens;
            if value.is("[") {
                return self.form_at(*other, *place, tokens.len());
            }
            // A single string is as often a label or the key of another map: only an index makes it a field.
            let is_indexed = *place > 0 && tokens[place - 1].is("[") && is_index(tokens, place - 1);
            is_indexed.then_some(NameForm::Field)
        })
    }
}

/// Returns the strings in a list, or at one place of the tuples in it.
fn literals<'a>(
    tokens: &[SourceToken<'a>],
    opening: usize,
    place: usize,
    form: NameForm,
) -> Vec<FieldUse<'a>> {
    let mut found = Vec::new();
    for element in arguments(tokens, opening) {
        let is_tuple = element.first().is_some_and(|first| first.is("("));
        let parts = if is_tuple { arguments(element, 0) } else { vec![element] };
        if let Some([token]) = parts.get(place).copied()
            && token.kind == TokenKind::Text
        {
            found.push(FieldUse { form, text: token.text, line: token.line });
        }
    }
    found
}
