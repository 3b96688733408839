//! The evaluator: runs a plan, tracks costs, and absorbs errors in logical operators.

// upstream: github.com/google/cel-go/interpreter/interpretable.go
// upstream: github.com/google/cel-go/interpreter/runtimecost.go

mod attribute;
mod comprehension;
mod pattern_cost;

use std::borrow::Cow;
use std::sync::Arc;

use atoll_meta::Deadline;

use crate::cost::standard;
use crate::error::Error;
use crate::expression::Evaluation;
use crate::plan::{Base, Call, FindCall, MatchesCall, Plan, Step};
use crate::standard::put_all;
use crate::value::{Key, List, Map, Value};

/// Upstream's panic message when it charges for sorting a failed list. Never absorbed.
const UPSTREAM_PANIC: &str =
    "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add";

/// Evaluates a plan.
pub fn evaluate<'a>(
    plan: &'a Plan,
    variables: Vec<Option<Value<'a>>>,
    limit: u64,
    deadline: &Deadline<'_>,
) -> Evaluation<'a> {
    let locals = vec![Local::Empty; plan.slots];
    let mut evaluator = Evaluator { variables, locals, cost: 0, limit, deadline, panicked: false };
    let result = match evaluator.step(&plan.root) {
        Err(Error::Cancelled) if evaluator.panicked => Err(Error::new(UPSTREAM_PANIC)),
        result => result,
    };
    Evaluation { result, cost: evaluator.cost }
}

/// Evaluates a constant step.
///
/// # Errors
///
/// Returns the error of the evaluation.
pub fn fold(step: &Step) -> Result<Value<'static>, Error> {
    // The result contains only constants, which are shared and not borrowed from the step.
    let (variables, locals, deadline) = (Vec::new(), Vec::new(), &Deadline::never());
    let mut evaluator = Evaluator { variables, locals, cost: 0, limit: u64::MAX, deadline, panicked: false };
    let value = evaluator.step(step)?;
    owned(&value).ok_or(Error::NoSuchOverload)
}

/// Detaches a constant value from the lifetime of its step.
fn owned(value: &Value<'_>) -> Option<Value<'static>> {
    Some(match value {
        Value::Null => Value::Null,
        Value::Bool(it) => Value::Bool(*it),
        Value::Int(it) => Value::Int(*it),
        Value::Uint(it) => Value::Uint(*it),
        Value::Double(it) => Value::Double(*it),
        Value::String(text) => Value::shared_text(text),
        Value::Bytes(bytes) => Value::Bytes(bytes.clone()),
        Value::Timestamp(at) => Value::Timestamp(*at),
        Value::Duration(nanos) => Value::Duration(*nanos),
        Value::Type(name) => Value::Type(name.clone()),
        Value::Opaque(value) => Value::Opaque(value.clone()),
        Value::Optional(inside) => Value::optional(match inside {
            Some(inside) => Some(owned(inside)?),
            None => None,
        }),
        Value::List(list) => {
            let items: Option<Vec<Value<'static>>> = list.iter().map(|item| owned(&item.ok()?)).collect();
            Value::from(items?)
        }
        Value::Map(Map::Owned(entries)) => {
            let entries: Option<Vec<_>> = entries
                .iter()
                .map(|(key, value)| Some((Key::of(&owned(&key.value())?)?, owned(value)?)))
                .collect();
            Value::Map(Map::owned(entries?))
        }
        Value::Map(_) | Value::Unknown(_) => return None,
    })
}

/// Appends to an accumulator in place, if it is not shared.
fn grow<'a>(arguments: &mut [Value<'a>]) -> Option<EvalResult<'a>> {
    let (first, rest) = arguments.split_first_mut()?;
    let grown = match (&mut *first, rest) {
        (Value::List(List::Owned(so_far)), [Value::List(List::Owned(more))]) => {
            Arc::get_mut(so_far)?.extend(more.iter().cloned());
            Ok(())
        }
        (Value::Map(Map::Owned(so_far)), rest) => put_all(Arc::get_mut(so_far)?, rest),
        _ => return None,
    };
    Some(grown.map(|()| std::mem::replace(first, Value::Null)))
}

/// A comprehension variable.
#[derive(Clone)]
enum Local<'a> {
    Empty,
    /// Evaluated on first use.
    Lazy(&'a Step),
    Value(Result<Value<'a>, Error>),
}

struct Evaluator<'a, 'd> {
    variables: Vec<Option<Value<'a>>>,
    locals: Vec<Local<'a>>,
    cost: u64,
    limit: u64,
    deadline: &'d Deadline<'d>,
    /// Whether evaluation stopped where upstream panics.
    panicked: bool,
}

type EvalResult<'a> = Result<Value<'a>, Error>;

impl<'a> Evaluator<'a, '_> {
    fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit || self.deadline.step() { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn step(&mut self, step: &'a Step) -> EvalResult<'a> {
        match step {
            Step::Constant(value) => Ok(value.clone()),
            Step::Attribute(attribute) => {
                let value = self.resolve(attribute);
                if let Err(Error::Cancelled) = value {
                    return value;
                }
                // A conditional itself is free.
                if !matches!(attribute.base, Base::Either(_)) {
                    self.charge(1)?;
                }
                value
            }
            Step::Test(attribute) => self.test(attribute),
            Step::And(terms) => self.logic(terms, false),
            Step::Or(terms) => self.logic(terms, true),
            Step::Equal(sides) => self.equal(sides, true),
            Step::NotEqual(sides) => self.equal(sides, false),
            Step::Member(member) => {
                let value = self.step(&member.0)?;
                let Value::List(list) = &member.1 else { return Err(Error::NoSuchOverload) };
                let found = list.iter().any(|item| item.is_ok_and(|item| value.equals(&item) == Ok(true)));
                Ok(Value::Bool(found))
            }
            Step::Matches(matches) => self.matches(matches),
            Step::Find(find) => self.find(find),
            Step::Call(call) => self.call(call),
            Step::List(items) => self.list(items),
            Step::Map(entries) => self.map(entries),
            Step::Comprehension(it) => self.comprehension(it),
            Step::OptionalOr(sides) => match self.step(&sides[0])? {
                Value::Optional(None) => self.step(&sides[1]),
                other => Ok(other),
            },
            Step::OptionalOrValue(sides) => match self.step(&sides[0])? {
                Value::Optional(None) => self.step(&sides[1]),
                Value::Optional(Some(value)) => Ok((*value).clone()),
                other => Ok(other),
            },
        }
    }

    /// Evaluates `&&` or `||`: one side can decide even if the other fails.
    fn logic(&mut self, terms: &'a [Step; 2], decisive: bool) -> EvalResult<'a> {
        let mut failed = None;
        for term in terms {
            match self.step(term) {
                Ok(Value::Bool(it)) if it == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Ok(_) => failed = failed.or(Some(Error::NoSuchOverload)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!decisive)),
        }
    }

    fn equal(&mut self, sides: &'a [Step; 2], expected: bool) -> EvalResult<'a> {
        let one = self.step(&sides[0]);
        if let Err(Error::Cancelled) = one {
            return one;
        }
        let two = self.step(&sides[1]);
        if let Err(Error::Cancelled) = two {
            return two;
        }
        let result = match (&one, &two) {
            (Ok(one), Ok(two)) => match one.equals(two) {
                Ok(equal) => Ok(Value::Bool(equal == expected)),
                // Values that cannot be compared are different.
                Err(_) if !expected => Ok(Value::Bool(true)),
                Err(error) => Err(error),
            },
            (Err(error), _) | (_, Err(error)) => Err(error.clone()),
        };
        let arguments = [one.unwrap_or(Value::Null), two.unwrap_or(Value::Null)];
        self.charge(match &arguments[0] {
            // Opaque types cost 1 to compare, but only for `==`.
            Value::Opaque(_) if expected => 1,
            _ => standard::shorter(&arguments, None),
        })?;
        result
    }

    fn matches(&mut self, matches: &'a MatchesCall) -> EvalResult<'a> {
        let arguments = [self.step(&matches.text)?, matches.pattern.clone()];
        let cost = match matches.method {
            true => standard::matches(&arguments, None),
            false => 1,
        };
        // A match cannot be interrupted, so it is charged in advance.
        self.charge(cost)?;
        self.charge(pattern_cost::match_cost("matches", &arguments, cost, matches.size))?;
        match &arguments[0] {
            Value::String(text) => Ok(Value::Bool(matches.regex.is_match(text))),
            _ => Err(Error::NoSuchOverload),
        }
    }

    fn find(&mut self, find: &'a FindCall) -> EvalResult<'a> {
        let mut arguments = vec![self.step(&find.text)?, find.pattern.clone()];
        let limit = find.limit.as_ref().map(|limit| self.step(limit)).transpose();
        if let Err(Error::Cancelled) = limit {
            return Err(Error::Cancelled);
        }
        let cost = crate::library::find_cost(&arguments, None);
        self.charge(cost)?;
        self.charge(pattern_cost::match_cost("find", &arguments, cost, find.size))?;
        arguments.extend(limit?);
        (find.call)(&find.regex, &arguments)
    }

    fn call(&mut self, call: &'a Call) -> EvalResult<'a> {
        let strict = call.function != "@not_strictly_false";
        let mut arguments = Vec::with_capacity(call.arguments.len());
        let mut failed = None;
        for (index, argument) in call.arguments.iter().enumerate() {
            let value = match (index, call.accumulates) {
                (0, true) => self.accumulated(argument),
                _ => self.step(argument),
            };
            match value {
                Ok(value) => arguments.push(value),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(error) => {
                    // Upstream does not charge unless all arguments were evaluated.
                    if call.stops_at_first_error() && index + 1 < call.arguments.len() {
                        return Err(error);
                    }
                    failed = failed.or(Some(error));
                    arguments.push(Value::Null);
                }
            }
        }
        if failed.is_some() && call.panics_upstream(&arguments) {
            self.panicked = true;
            return Err(Error::Cancelled);
        }
        if failed.is_none() {
            self.charge(pattern_cost::compile_cost(call.function, &arguments))?;
        }
        let (result, chosen) = match failed {
            Some(_) if !strict => (Ok(Value::Bool(true)), call.overloads.first()),
            Some(error) => (Err(error), call.overloads.first()),
            None => self.dispatch(call, &mut arguments),
        };
        let single = call.overloads.len() == 1;
        let cost = chosen.and_then(|chosen| match chosen.overload.ambiguous {
            Some(cost) if !single => Some(cost),
            _ => chosen.cost.filter(|_| single || !chosen.standard),
        });
        let cost = cost.map_or(1, |cost| cost(&arguments, result.as_ref().ok()));
        self.charge(cost)?;
        result
    }

    /// Calls the overload that accepts the arguments.
    fn dispatch(
        &mut self,
        call: &'a Call,
        arguments: &mut [Value<'a>],
    ) -> (EvalResult<'a>, Option<&'a &'static crate::functions::OverloadDecl>) {
        let chosen =
            call.overloads.iter().find(|declared| declared.overload.unguarded || declared.accepts(arguments));
        let Some(chosen) = chosen else {
            let names: Vec<&str> = arguments.iter().map(Value::type_name).collect();
            let message = format!("no such overload: {}({})", call.function, names.join(", "));
            return (Err(Error::Failed(Cow::Owned(message))), call.overloads.first());
        };
        if call.accumulates
            && let Some(result) = grow(arguments)
        {
            return (result, Some(chosen));
        }
        ((chosen.overload.call)(arguments), Some(chosen))
    }

    fn list(&mut self, items: &'a [(Step, bool)]) -> EvalResult<'a> {
        let mut values = Vec::with_capacity(items.len());
        let result = self.fill_list(items, &mut values);
        if let Err(Error::Cancelled) = result {
            return Err(Error::Cancelled);
        }
        self.charge(10)?;
        result.map(|()| Value::from(values))
    }

    fn fill_list(&mut self, items: &'a [(Step, bool)], values: &mut Vec<Value<'a>>) -> Result<(), Error> {
        for (item, optional) in items {
            match (self.step(item)?, optional) {
                (value, false) => values.push(value),
                (Value::Optional(Some(value)), true) => values.push((*value).clone()),
                (Value::Optional(None), true) => {}
                (other, true) => {
                    let message = format!(
                        "cannot initialize optional list element from non-optional value {}",
                        other.display()
                    );
                    return Err(Error::new(message));
                }
            }
        }
        Ok(())
    }

    fn map(&mut self, entries: &'a [(Step, Step, bool)]) -> EvalResult<'a> {
        let mut made = Vec::with_capacity(entries.len());
        let result = self.fill_map(entries, &mut made);
        if let Err(Error::Cancelled) = result {
            return Err(Error::Cancelled);
        }
        self.charge(30)?;
        result.map(|()| Value::Map(Map::owned(made)))
    }

    fn fill_map(
        &mut self,
        entries: &'a [(Step, Step, bool)],
        made: &mut Vec<(Key<'a>, Value<'a>)>,
    ) -> Result<(), Error> {
        for (key, value, optional) in entries {
            let key = self.step(key)?;
            let value = self.step(value)?;
            let Some(own) = Key::of(&key) else {
                return Err(Error::new(format!("unsupported key type: {}", key.type_name())));
            };
            match (value, optional) {
                (value, false) => made.push((own, value)),
                (Value::Optional(Some(value)), true) => made.push((own, (*value).clone())),
                (Value::Optional(None), true) => made.retain(|(known, _)| *known != own),
                (other, true) => {
                    let message = format!(
                        "cannot initialize optional entry '{}' from non-optional value {}",
                        key.display(),
                        other.display()
                    );
                    return Err(Error::new(message));
                }
            }
        }
        Ok(())
    }
}
