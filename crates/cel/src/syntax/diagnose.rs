//! Syntax error messages. Upstream's messages depend on how its generated ANTLR parser recovers from errors,
//! which this reproduces.

// upstream: github.com/google/cel-go/parser/parser.go
// upstream: github.com/google/cel-go/parser/errors.go

mod decide;

use decide::first;

use super::grammar::{EPSILON, Element, GRAMMAR, Grammar, Rule, Set, State};
use super::lexer::{Kind, Token, Unreadable};
use super::token_names::list;
use crate::reserved::RESERVED;
use crate::source::{Issues, Location};

/// Maximum number of recoveries.
const MAX_RECOVERIES: usize = 30;
/// Maximum number of tokens that one recovery skips.
const MAX_SKIPPED: usize = 256;

/// Adds the syntax errors.
pub fn diagnose(text: &str, tokens: &[Token], unreadable: &[Unreadable], issues: &mut Issues) {
    for (start, end) in unreadable {
        let message = format!("Syntax error: token recognition error at: '{}'", &text[*start..*end]);
        issues.add(Location::at(text, *start), message);
    }
    let mut parser = RecoveringParser {
        text,
        tokens,
        unreadable,
        issues,
        at: 0,
        state: 0,
        outer_states: Vec::new(),
        recovering: false,
        last_error: None,
        attempts: 0,
        late: Vec::new(),
    };
    // All errors have been reported, whether parsing ended or gave up.
    let gave_up = parser.rule(Rule::Start, 0).is_err();
    let late = std::mem::take(&mut parser.late);
    if !gave_up {
        for (offset, message) in late {
            issues.add(Location::at(text, offset), message);
        }
    }
    if issues.is_empty() {
        issues.add(Location::NONE, "unknown parse element encountered: <<nil>>");
    }
}

/// The reason why a rule cannot continue.
enum Failure {
    /// The token does not match.
    Mismatch,
    /// No alternative matches. Contains the token at which they start.
    NoAlternative(usize),
}

/// There were too many errors.
struct TooManyErrors;

struct RecoveringParser<'a, 'i> {
    text: &'a str,
    tokens: &'a [Token],
    unreadable: &'a [Unreadable],
    issues: &'i mut Issues,
    at: usize,
    state: State,
    /// States after the rules that were entered.
    outer_states: Vec<State>,
    recovering: bool,
    /// Position of the last recovery and its states.
    last_error: Option<(usize, Vec<State>)>,
    attempts: usize,
    /// Messages that are reported after parsing.
    late: Vec<(usize, String)>,
}

type RecoveryResult = Result<Result<(), Failure>, TooManyErrors>;

impl RecoveringParser<'_, '_> {
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
        Self::grammar().expected(self.state, &self.outer_states)
    }

    fn report_error(&mut self, token: Token, message: &str) {
        self.issues.add(Location::at(self.text, token.start), format!("Syntax error: {message}"));
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

    /// Parses a rule and recovers from errors.
    fn rule(&mut self, rule: Rule, precedence: u8) -> Result<(), TooManyErrors> {
        let start = self.at;
        let elements = &Self::grammar().rules[rule as usize];
        if let Err(failure) = self.sequence(elements, rule, precedence)? {
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

    /// Reports a reserved identifier.
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

    fn sequence(&mut self, elements: &'static [Element], rule: Rule, precedence: u8) -> RecoveryResult {
        for element in elements {
            if let Err(failure) = self.element(element, rule, precedence)? {
                return Ok(Err(failure));
            }
        }
        Ok(Ok(()))
    }

    fn element(&mut self, element: &'static Element, rule: Rule, precedence: u8) -> RecoveryResult {
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
                self.outer_states.push(*after);
                let read = self.rule(*inner, *inner_tightness);
                self.outer_states.pop();
                self.state = *state;
                read.map(Ok)
            }
            Element::Optional(state, inside) => {
                self.state = *state;
                if let Err(failure) = self.sync(false) {
                    return Ok(Err(failure));
                }
                match self.is_next(first(inside)) {
                    true => self.sequence(inside, rule, precedence),
                    false => Ok(Ok(())),
                }
            }
            Element::Star(state, inside, back) => {
                self.state = *state;
                if let Err(failure) = self.sync(false) {
                    return Ok(Err(failure));
                }
                while self.continues(inside, rule, precedence) {
                    if let Err(failure) = self.sequence(inside, rule, precedence)? {
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
                    if let Err(failure) = self.sequence(inside, rule, precedence)? {
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
                    Ok(choice) => self.sequence(&choices[choice], rule, precedence),
                    Err(offending) => Ok(Err(self.no_alternative(offending))),
                }
            }
        }
    }

    /// Reports that no alternative matches at a later token, which becomes the current one for the report
    /// only.
    fn no_alternative(&mut self, offending: usize) -> Failure {
        let start = self.at;
        self.at = offending.min(self.tokens.len() - 1);
        let failure = Failure::NoAlternative(start);
        self.report(&failure);
        self.at = start;
        failure
    }

    /// Checks that the next token is possible before a decision.
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

    /// Deletes one token if the one after it matches.
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
        let message = format!("extraneous input {} expecting {}", self.display(token), list(self.expected()));
        self.report_error(token, &message);
    }

    fn attempt(&mut self) -> Result<(), TooManyErrors> {
        if self.attempts == MAX_RECOVERIES {
            let message = format!("error recovery attempt limit exceeded: {MAX_RECOVERIES}");
            self.report_error(self.token(), &message);
            return Err(TooManyErrors);
        }
        self.attempts += 1;
        Ok(())
    }

    /// Handles a missing token: deletes one, or inserts the missing one, or fails.
    fn recover_inline(&mut self, after: State) -> RecoveryResult {
        self.attempt()?;
        if self.delete_one() {
            self.consume();
            return Ok(Ok(()));
        }
        let then = Self::grammar().expected(after, &self.outer_states);
        if self.is_next(then) {
            if !self.recovering {
                self.recovering = true;
                let token = self.token();
                let message = format!("missing {} at {}", list(self.expected()), self.display(token));
                self.report_error(token, &message);
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
                format!("mismatched input {} expecting {}", self.display(token), list(self.expected()))
            }
            Failure::NoAlternative(start) => {
                let from = self.tokens[*start];
                let input = match from.kind {
                    Kind::End => "<EOF>".to_owned(),
                    _ => self.between(from.start, token.end),
                };
                // Upstream rewrites these messages for compatibility.
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
        self.report_error(token, &message);
    }

    /// Returns the text from one token to another, without unreadable characters.
    fn between(&self, start: usize, end: usize) -> String {
        let (mut text, mut at) = (String::new(), start);
        for (from, to) in self.unreadable.iter().filter(|(from, to)| *from >= start && *to <= end) {
            text.push_str(&self.text[at..*from]);
            at = *to;
        }
        text.push_str(&self.text[at..end]);
        text
    }

    /// Returns the tokens that can follow the entered rules.
    fn recovery_set(&self) -> Set {
        let follows = self.outer_states.iter().map(|state| Self::grammar().next(*state));
        follows.fold(0, |all, follow| all | follow) & !EPSILON
    }

    /// Skips to a token at which an outer rule can continue.
    fn recover(&mut self) -> Result<(), TooManyErrors> {
        self.attempt()?;
        let mut skipped = 0;
        if let Some((position, states)) = &self.last_error
            && *position == self.at
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
            if skipped >= MAX_SKIPPED {
                let message = format!("error recovery token lookahead limit exceeded: {MAX_SKIPPED}");
                self.issues.add(Location::NONE, message);
                return Err(TooManyErrors);
            }
            self.consume();
            skipped += 1;
        }
        Ok(())
    }
}
