//! What to say of wrong syntax: upstream's words, which come from how its parser recovers and reads on.

use super::grammar::{EPSILON, Element, GRAMMAR, Grammar, Rule, Set, State, set};
use super::lexer::{Kind, Token, Unreadable};
use super::parser::RESERVED;
use super::words::shown;
use crate::source::{Issues, Place};

/// How often to recover before giving up.
const ATTEMPTS: usize = 30;
/// How many tokens to skip in one recovery.
const SKIPPED: usize = 256;

/// Adds what is wrong with the syntax.
pub fn diagnose(text: &str, tokens: &[Token], unreadable: &[Unreadable], issues: &mut Issues) {
    for (start, end) in unreadable {
        let message = format!("Syntax error: token recognition error at: '{}'", &text[*start..*end]);
        issues.add(Place::of(text, *start), message);
    }
    let mut reader = Reader {
        text,
        tokens,
        unreadable,
        issues,
        at: 0,
        state: 0,
        outside: Vec::new(),
        recovering: false,
        last_error: None,
        attempts: 0,
        late: Vec::new(),
    };
    // Whether it ended by itself or gave up, all has been said.
    let given_up = reader.rule(Rule::Start, 0).is_err();
    let late = std::mem::take(&mut reader.late);
    if !given_up {
        for (offset, message) in late {
            issues.add(Place::of(text, offset), message);
        }
    }
    if issues.is_empty() {
        issues.add(Place::NOWHERE, "unknown parse element encountered: <<nil>>");
    }
}

/// A rule cannot go on.
enum Failure {
    /// Not with this token.
    Mismatch,
    /// With neither of its alternatives: the token where they began.
    NoAlternative(usize),
}

/// There were too many errors to go on.
struct GiveUp;

struct Reader<'a, 'i> {
    text: &'a str,
    tokens: &'a [Token],
    unreadable: &'a [Unreadable],
    issues: &'i mut Issues,
    at: usize,
    state: State,
    /// The states after the rules that were entered.
    outside: Vec<State>,
    recovering: bool,
    /// Where the last recovery was, and the states it was in.
    last_error: Option<(usize, Vec<State>)>,
    attempts: usize,
    /// What is said after the syntax was read.
    late: Vec<(usize, String)>,
}

type Done = Result<Result<(), Failure>, GiveUp>;

impl Reader<'_, '_> {
    fn grammar() -> &'static Grammar {
        &GRAMMAR
    }

    fn ahead(&self, count: usize) -> Kind {
        self.tokens.get(self.at + count).map_or(Kind::End, |token| token.kind)
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn consume(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn is_next(&self, set: Set) -> bool {
        set & (1 << self.ahead(0) as u8) != 0
    }

    fn expected(&self) -> Set {
        Self::grammar().expected(self.state, &self.outside)
    }

    fn blame(&mut self, token: Token, message: &str) {
        self.issues.add(Place::of(self.text, token.start), format!("Syntax error: {message}"));
    }

    fn display(&self, token: Token) -> String {
        let text = match token.kind {
            Kind::End => "<EOF>",
            _ => &self.text[token.start..token.end],
        };
        format!("'{}'", text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r"))
    }

    fn matched(&mut self) {
        self.recovering = false;
        self.last_error = None;
    }

    /// Reads a rule, and recovers if it fails.
    fn rule(&mut self, rule: Rule, tightness: u8) -> Result<(), GiveUp> {
        let start = self.at;
        let elements = &Self::grammar().rules[rule as usize];
        if let Err(failure) = self.sequence(elements, rule, tightness)? {
            if rule == Rule::FieldName {
                self.late.push((self.tokens[start].start, "unsupported ident kind".to_owned()));
            }
            self.report(&failure);
            self.recover()?;
        }
        if rule == Rule::Primary {
            self.reserved(start);
        }
        Ok(())
    }

    /// A variable or a function with a name that none can have.
    fn reserved(&mut self, start: usize) {
        let dot = usize::from(self.tokens[start].kind == Kind::Dot);
        let Some(name) = self.tokens.get(start + dot).filter(|name| name.kind == Kind::Identifier) else {
            return;
        };
        let text = &self.text[name.start..name.end];
        let message = self.tokens[start..self.at].iter().any(|token| token.kind == Kind::LeftBrace);
        if RESERVED.contains(&text) && !message {
            self.late.push((self.tokens[start].start, format!("reserved identifier: {text}")));
        }
    }

    fn sequence(&mut self, elements: &'static [Element], rule: Rule, tightness: u8) -> Done {
        for element in elements {
            if let Err(failure) = self.element(element, rule, tightness)? {
                return Ok(Err(failure));
            }
        }
        Ok(Ok(()))
    }

    fn element(&mut self, element: &'static Element, rule: Rule, tightness: u8) -> Done {
        match element {
            Element::Token(state, set, after) => {
                self.state = *state;
                if self.is_next(*set) {
                    self.matched();
                    self.consume();
                    return Ok(Ok(()));
                }
                self.recover_inline(*after)
            }
            Element::Rule(state, inner, inner_tightness, after) => {
                self.state = *state;
                self.outside.push(*after);
                let read = self.rule(*inner, *inner_tightness);
                self.outside.pop();
                self.state = *state;
                read.map(Ok)
            }
            Element::Optional(state, inside) => {
                self.state = *state;
                if let Err(failure) = self.sync(false) {
                    return Ok(Err(failure));
                }
                match self.is_next(first(inside)) {
                    true => self.sequence(inside, rule, tightness),
                    false => Ok(Ok(())),
                }
            }
            Element::Star(state, inside, back) => {
                self.state = *state;
                if let Err(failure) = self.sync(false) {
                    return Ok(Err(failure));
                }
                while self.goes_on(inside, rule, tightness) {
                    if let Err(failure) = self.sequence(inside, rule, tightness)? {
                        return Ok(Err(failure));
                    }
                    self.state = *back;
                    if let Err(failure) = self.sync(true) {
                        return Ok(Err(failure));
                    }
                }
                Ok(Ok(()))
            }
            Element::Plus(state, inside, back) => {
                self.state = *state;
                if let Err(failure) = self.sync(false) {
                    return Ok(Err(failure));
                }
                loop {
                    if let Err(failure) = self.sequence(inside, rule, tightness)? {
                        return Ok(Err(failure));
                    }
                    self.state = *back;
                    if let Err(failure) = self.sync(true) {
                        return Ok(Err(failure));
                    }
                    if !self.is_next(first(inside)) {
                        return Ok(Ok(()));
                    }
                    if self.ahead(0) == Kind::Minus && !self.may_follow_minus() {
                        return Ok(Err(self.no_alternative(self.at + 1)));
                    }
                }
            }
            Element::Choice(state, choices) => {
                self.state = *state;
                if let Err(failure) = self.sync(false) {
                    return Ok(Err(failure));
                }
                match self.choose(choices, rule) {
                    Ok(choice) => self.sequence(&choices[choice], rule, tightness),
                    Err(offending) => Ok(Err(self.no_alternative(offending))),
                }
            }
        }
    }

    /// None of the alternatives is possible with a token further on: it is the current one for the report only.
    fn no_alternative(&mut self, offending: usize) -> Failure {
        let start = self.at;
        self.at = offending.min(self.tokens.len() - 1);
        let failure = Failure::NoAlternative(start);
        self.report(&failure);
        self.at = start;
        failure
    }

    /// Whether the token after a minus can be there.
    fn may_follow_minus(&self) -> bool {
        let Element::Choice(_, choices) = &Self::grammar().rules[Rule::Unary as usize][0] else {
            return true;
        };
        first(&choices[0]) & (1 << self.ahead(1) as u8) != 0
    }

    /// Whether a loop takes another round.
    fn goes_on(&self, inside: &'static [Element], rule: Rule, tightness: u8) -> bool {
        if !self.is_next(first(inside)) {
            return false;
        }
        match (rule, self.ahead(0)) {
            (Rule::Relation, _) => tightness <= 1,
            (Rule::Sum, Kind::Star | Kind::Slash | Kind::Percent) => tightness <= 2,
            (Rule::Sum, _) => tightness <= 1,
            // A comma before the closing bracket is not the loop's.
            (Rule::ListItems | Rule::Fields | Rule::Entries, _) => {
                let item = match rule {
                    Rule::Fields => set(&[Kind::Question, Kind::Identifier, Kind::EscapedIdentifier]),
                    _ => Self::grammar().next(item_start()),
                };
                item & (1 << self.ahead(1) as u8) != 0
            }
            _ => true,
        }
    }

    /// Which alternative comes, or the place of the token with which none can.
    fn choose(&self, choices: &'static [Vec<Element>], rule: Rule) -> Result<usize, usize> {
        let number = |kind: Kind| matches!(kind, Kind::Int | Kind::Float);
        match (rule, self.ahead(0)) {
            (Rule::Unary, Kind::Exclamation) => Ok(1),
            (Rule::Unary, Kind::Minus) => match self.ahead(1) {
                kind if number(kind) => Ok(0),
                _ if self.may_follow_minus() => Ok(2),
                _ => Err(self.at + 1),
            },
            (Rule::Unary, _) => Ok(0),
            (Rule::Literal, Kind::Minus) => match self.ahead(1) {
                Kind::Int => Ok(0),
                Kind::Float => Ok(2),
                _ => Err(self.at + 1),
            },
            (Rule::Member, Kind::LeftBracket) => Ok(2),
            (Rule::Member, Kind::Dot) => match (self.ahead(1), self.ahead(2)) {
                (Kind::Identifier, Kind::LeftParenthesis) => Ok(1),
                (Kind::Identifier | Kind::EscapedIdentifier | Kind::Question, _) => Ok(0),
                _ => Err(self.at + 1),
            },
            (Rule::Primary, Kind::Dot | Kind::Identifier) => {
                let dot = usize::from(self.ahead(0) == Kind::Dot);
                if self.ahead(dot) != Kind::Identifier {
                    return Err(self.at + dot);
                }
                let mut place = dot + 1;
                if self.ahead(place) == Kind::LeftParenthesis {
                    return Ok(1);
                }
                while self.ahead(place) == Kind::Dot && self.ahead(place + 1) == Kind::Identifier {
                    place += 2;
                }
                Ok(if self.ahead(place) == Kind::LeftBrace { 5 } else { 0 })
            }
            _ => {
                let fits = |choice: &Vec<Element>| self.is_next(first(choice));
                choices.iter().position(fits).ok_or(self.at)
            }
        }
    }

    /// Looks whether what comes can come, before a decision is made.
    fn sync(&mut self, back: bool) -> Result<(), Failure> {
        if self.recovering {
            return Ok(());
        }
        let next = Self::grammar().next(self.state);
        if next & EPSILON != 0 || self.is_next(next) {
            return Ok(());
        }
        if !back {
            return if self.delete_one() { Ok(()) } else { Err(Failure::Mismatch) };
        }
        self.unwanted();
        let until = self.expected() | self.recovery_set();
        while self.ahead(0) != Kind::End && !self.is_next(until) {
            self.consume();
        }
        Ok(())
    }

    /// Leaves out one token, if the one after it fits.
    fn delete_one(&mut self) -> bool {
        if self.expected() & (1 << self.ahead(1) as u8) == 0 {
            return false;
        }
        self.unwanted();
        self.consume();
        self.matched();
        true
    }

    fn unwanted(&mut self) {
        if self.recovering {
            return;
        }
        self.recovering = true;
        let token = self.token();
        let message =
            format!("extraneous input {} expecting {}", self.display(token), shown(self.expected()));
        self.blame(token, &message);
    }

    fn attempt(&mut self) -> Result<(), GiveUp> {
        if self.attempts == ATTEMPTS {
            let message = format!("error recovery attempt limit exceeded: {ATTEMPTS}");
            self.blame(self.token(), &message);
            return Err(GiveUp);
        }
        self.attempts += 1;
        Ok(())
    }

    /// A token is not there: leave out one, or go on as if it were there, or fail.
    fn recover_inline(&mut self, after: State) -> Done {
        self.attempt()?;
        if self.delete_one() {
            self.consume();
            return Ok(Ok(()));
        }
        let then = Self::grammar().expected(after, &self.outside);
        if self.is_next(then) {
            if !self.recovering {
                self.recovering = true;
                let token = self.token();
                let message = format!("missing {} at {}", shown(self.expected()), self.display(token));
                self.blame(token, &message);
            }
            return Ok(Ok(()));
        }
        Ok(Err(Failure::Mismatch))
    }

    fn report(&mut self, failure: &Failure) {
        if self.recovering {
            return;
        }
        self.recovering = true;
        let token = self.token();
        let message = match failure {
            Failure::Mismatch => {
                format!("mismatched input {} expecting {}", self.display(token), shown(self.expected()))
            }
            Failure::NoAlternative(start) => {
                let from = self.tokens[*start];
                let input = match from.kind {
                    Kind::End => "<EOF>".to_owned(),
                    _ => self.between(from.start, token.end),
                };
                // Upstream keeps the words that it had for these before.
                match &input[..] {
                    ".true" | ".false" | ".null" => {
                        format!("mismatched input '{}' expecting IDENTIFIER", &input[1..])
                    }
                    _ => format!(
                        "no viable alternative at input '{}'",
                        input.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
                    ),
                }
            }
        };
        self.blame(token, &message);
    }

    /// The text of tokens and of what is between them, but for what is no token.
    fn between(&self, start: usize, end: usize) -> String {
        let (mut text, mut at) = (String::new(), start);
        for (from, to) in self.unreadable.iter().filter(|(from, to)| *from >= start && *to <= end) {
            text.push_str(&self.text[at..*from]);
            at = *to;
        }
        text.push_str(&self.text[at..end]);
        text
    }

    /// What can follow the rules that were entered.
    fn recovery_set(&self) -> Set {
        let follows = self.outside.iter().map(|state| Self::grammar().next(*state));
        follows.fold(0, |all, follow| all | follow) & !EPSILON
    }

    /// Skips to where some outer rule can go on.
    fn recover(&mut self) -> Result<(), GiveUp> {
        self.attempt()?;
        let mut skipped = 0;
        if let Some((place, states)) = &self.last_error
            && *place == self.at
            && states.contains(&self.state)
        {
            self.consume();
            skipped += 1;
        }
        let mut states = self.last_error.take().map_or_else(Vec::new, |(_, states)| states);
        states.push(self.state);
        self.last_error = Some((self.at, states));
        let until = self.recovery_set();
        while self.ahead(0) != Kind::End && !self.is_next(until) {
            if skipped >= SKIPPED {
                let message = format!("error recovery token lookahead limit exceeded: {SKIPPED}");
                self.issues.add(Place::NOWHERE, message);
                return Err(GiveUp);
            }
            self.consume();
            skipped += 1;
        }
        Ok(())
    }
}

/// The tokens with which elements can begin.
fn first(elements: &[Element]) -> Set {
    let state = match &elements[0] {
        Element::Token(_, set, _) => return *set,
        Element::Rule(state, ..)
        | Element::Optional(state, _)
        | Element::Star(state, ..)
        | Element::Plus(state, ..)
        | Element::Choice(state, _) => *state,
    };
    GRAMMAR.next(state) & !EPSILON
}

/// The state before an item of a list.
fn item_start() -> State {
    match &GRAMMAR.rules[Rule::ListItems as usize][0] {
        Element::Rule(state, ..) => *state,
        _ => 0,
    }
}
