//! Running a plan: values, errors that logic may absorb, and what every step costs.

mod attribute;
mod repeat;
mod surcharge;

use std::borrow::Cow;
use std::sync::Arc;

use atoll_meta::Deadline;

use crate::cost::standard;
use crate::error::Error;
use crate::expression::Evaluation;
use crate::plan::{Base, Call, Find, Matches, Plan, Step};
use crate::standard::put_all;
use crate::value::{Key, List, Map, Value};

/// What upstream says when it charges for sorting what is no list because it failed; nothing absorbs this.
const BROKEN: &str =
    "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add";

/// Runs a plan.
pub fn evaluate<'a>(
    plan: &'a Plan,
    variables: Vec<Option<Value<'a>>>,
    limit: u64,
    deadline: &Deadline<'_>,
) -> Evaluation<'a> {
    let locals = vec![Local::Empty; plan.places];
    let mut run = Run { variables, locals, cost: 0, limit, deadline, broken: false };
    let result = match run.step(&plan.root) {
        Err(Error::Cancelled) if run.broken => Err(Error::new(BROKEN)),
        result => result,
    };
    Evaluation { result, cost: run.cost }
}

/// The value of a step of constants.
///
/// # Errors
///
/// If it has none.
pub fn fold(step: &Step) -> Result<Value<'static>, Error> {
    // The step outlives nothing of its value but constants, which are shared and not borrowed.
    let (variables, locals, deadline) = (Vec::new(), Vec::new(), &Deadline::never());
    let mut run = Run { variables, locals, cost: 0, limit: u64::MAX, deadline, broken: false };
    let value = run.step(step)?;
    owned(&value).ok_or(Error::NoSuchOverload)
}

/// A value of constants without the lifetime of their step.
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

/// Adds to an accumulator in its place, if nobody else has it.
fn grow<'a>(arguments: &mut [Value<'a>]) -> Option<Result_<'a>> {
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

/// A loop's variable.
#[derive(Clone)]
enum Local<'a> {
    Empty,
    /// To be evaluated when it is first asked for.
    Lazy(&'a Step),
    Value(Result<Value<'a>, Error>),
}

struct Run<'a, 'd> {
    variables: Vec<Option<Value<'a>>>,
    locals: Vec<Local<'a>>,
    cost: u64,
    limit: u64,
    deadline: &'d Deadline<'d>,
    /// Whether it ended where upstream breaks.
    broken: bool,
}

type Result_<'a> = Result<Value<'a>, Error>;

impl<'a> Run<'a, '_> {
    fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit || self.deadline.step() { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn step(&mut self, step: &'a Step) -> Result_<'a> {
        match step {
            Step::Constant(value) => Ok(value.clone()),
            Step::Attribute(attribute) => {
                let value = self.resolve(attribute);
                if let Err(Error::Cancelled) = value {
                    return value;
                }
                // A conditional costs nothing itself.
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
            Step::Loop(it) => self.repeat(it),
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

    /// `&&` and `||`: one side can decide whatever the other is.
    fn logic(&mut self, terms: &'a [Step; 2], decisive: bool) -> Result_<'a> {
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

    fn equal(&mut self, sides: &'a [Step; 2], wanted: bool) -> Result_<'a> {
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
                Ok(equal) => Ok(Value::Bool(equal == wanted)),
                // What refuses to be compared is different.
                Err(_) if !wanted => Ok(Value::Bool(true)),
                Err(error) => Err(error),
            },
            (Err(error), _) | (_, Err(error)) => Err(error.clone()),
        };
        let arguments = [one.unwrap_or(Value::Null), two.unwrap_or(Value::Null)];
        self.charge(match &arguments[0] {
            // The libraries' types cost 1 to compare, but only if asked whether they are equal.
            Value::Opaque(_) if wanted => 1,
            _ => standard::shorter(&arguments, None),
        })?;
        result
    }

    fn matches(&mut self, matches: &'a Matches) -> Result_<'a> {
        let arguments = [self.step(&matches.text)?, matches.pattern.clone()];
        let cost = match matches.method {
            true => standard::matches(&arguments, None),
            false => 1,
        };
        // A match cannot be ended, so it is paid for before it begins.
        self.charge(cost)?;
        self.charge(surcharge::of_match("matches", &arguments, cost, matches.size))?;
        match &arguments[0] {
            Value::String(text) => Ok(Value::Bool(matches.regex.is_match(text))),
            _ => Err(Error::NoSuchOverload),
        }
    }

    fn find(&mut self, find: &'a Find) -> Result_<'a> {
        let mut arguments = vec![self.step(&find.text)?, find.pattern.clone()];
        let limit = find.limit.as_ref().map(|limit| self.step(limit)).transpose();
        if let Err(Error::Cancelled) = limit {
            return Err(Error::Cancelled);
        }
        let cost = crate::library::find_cost(&arguments, None);
        self.charge(cost)?;
        self.charge(surcharge::of_match("find", &arguments, cost, find.size))?;
        arguments.extend(limit?);
        (find.call)(&find.regex, &arguments)
    }

    fn call(&mut self, call: &'a Call) -> Result_<'a> {
        let strict = call.function != "@not_strictly_false";
        let mut arguments = Vec::with_capacity(call.arguments.len());
        let mut failed = None;
        for (place, argument) in call.arguments.iter().enumerate() {
            let value = match (place, call.accumulates) {
                (0, true) => self.accumulated(argument),
                _ => self.step(argument),
            };
            match value {
                Ok(value) => arguments.push(value),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(error) => {
                    // Upstream forgets to charge unless all arguments were there.
                    if call.stops_early() && place + 1 < call.arguments.len() {
                        return Err(error);
                    }
                    failed = failed.or(Some(error));
                    arguments.push(Value::Null);
                }
            }
        }
        if failed.is_some() && call.breaks_without(&arguments) {
            self.broken = true;
            return Err(Error::Cancelled);
        }
        if failed.is_none() {
            self.charge(surcharge::of_pattern(call.function, &arguments))?;
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

    /// Calls the overload that takes the arguments.
    fn dispatch(
        &mut self,
        call: &'a Call,
        arguments: &mut [Value<'a>],
    ) -> (Result_<'a>, Option<&'a &'static crate::functions::Declared>) {
        let chosen =
            call.overloads.iter().find(|declared| declared.overload.unguarded || declared.takes(arguments));
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

    fn list(&mut self, items: &'a [(Step, bool)]) -> Result_<'a> {
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
                        other.shown()
                    );
                    return Err(Error::new(message));
                }
            }
        }
        Ok(())
    }

    fn map(&mut self, entries: &'a [(Step, Step, bool)]) -> Result_<'a> {
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
                        key.shown(),
                        other.shown()
                    );
                    return Err(Error::new(message));
                }
            }
        }
        Ok(())
    }
}
