//! From rules to programs.

use std::sync::Arc;

use atoll_cel::{Environment, Program, Shape, Type};
use serde_json::Value;

use super::shapes::{self, shape};
use super::{CompiledRule, RuleSet, Rules};
use crate::compile::{self, Dialect};
use crate::field_path;
use crate::limits;
use crate::node::{Flags, Node, NodeId, Rule};
use crate::schema::Schema;

const SELF: &str = "self";
const OLD_SELF: &str = "oldSelf";
/// The name that messages give to the type of what a rule is about. Upstream's ends with digits of a clock.
const TYPE_NAME: &str = "selfType1";
const REQUEST: u64 = 3 * 1024 * 1024;

/// What is known of a rule before it ever runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What is wrong with the rule.
    pub error: Option<String>,
    /// What it may cost at most, once.
    pub cost: u64,
    /// How often it may run at most, if nothing else limits that.
    pub cardinality: u64,
    /// Whether it looks at what was before.
    pub uses_old_self: bool,
    /// What is wrong with the expression for its message.
    pub message_error: Option<String>,
    /// What the message may cost at most; nothing if there is no expression for it.
    pub message_cost: Option<u64>,
    /// What the constant patterns of both take, compiled.
    pub patterns: u64,
}

/// What the rules of a schema would be compiled to, those of its parts left out. Nothing if expressions cannot see it.
/// `is_object` says whether it is the schema of a whole object.
pub fn reports(schema: &Value, is_object: bool) -> Option<Vec<Report>> {
    let schema = compile::schema(Some(schema), false, Dialect::Served);
    let node = schema.root();
    let sized = shape(&schema.nodes, node, is_object, TYPE_NAME)?;
    let environments = Environments::new(&sized.shape);
    let rules = node.extra.as_ref().map_or(&[][..], |extra| &extra.rules);
    let cardinality = REQUEST / (sized.least + 1);
    let reports = rules.iter().map(|rule| {
        let (_, mut report) = one(&schema.nodes, node, rule, &environments, &sized.shape);
        report.cardinality = cardinality;
        report
    });
    Some(reports.collect())
}

impl Schema {
    /// The compiled rules, made when they are first needed.
    pub(crate) fn rules(&self) -> &Rules {
        self.rules.get_or_init(|| compile_from(&self.nodes, (self.root, true)))
    }
}

/// The compiled rules of a part of a schema.
pub(crate) fn compile_from(nodes: &[Node], (id, is_object): (NodeId, bool)) -> Rules {
    let mut rules = Rules::default();
    if nodes[id.0 as usize].is(Flags::HOLDS_RULES) {
        gather(nodes, &seen_nodes(nodes), (id, is_object), &mut rules);
    }
    rules
}

/// How many nodes expressions see from each node, itself included. Those below a node come before it.
fn seen_nodes(nodes: &[Node]) -> Vec<u64> {
    let mut seen: Vec<u64> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let children = node.properties.iter().map(|property| property.node);
        let children = children.chain(node.items).chain(node.rest.node());
        let below = children.map(|child| seen.get(child.0 as usize).copied().unwrap_or_default());
        seen.push(below.fold(1, u64::saturating_add));
    }
    seen
}

/// Compiles the rules of a node and of all below that expressions can see.
fn gather(nodes: &[Node], counts: &[u64], (id, is_object): (NodeId, bool), rules: &mut Rules) {
    let node = &nodes[id.0 as usize];
    if !node.is(Flags::HOLDS_RULES) || rules.sets.contains_key(&(id, is_object)) {
        return;
    }
    let own = node.extra.as_ref().map_or(&[][..], |extra| &extra.rules);
    let visible = shapes::is_visible(nodes, node);
    if !own.is_empty() {
        let texts = own.iter().flat_map(|rule| [&*rule.rule, &*rule.message_expression]);
        let size = limits::rules_size(counts[id.0 as usize], texts);
        rules.size = rules.size.saturating_add(size);
        let sized = if rules.is_too_large() { None } else { shape(nodes, node, is_object, TYPE_NAME) };
        let set = sized.map(|sized| {
            let environments = Environments::new(&sized.shape);
            let mut compiled = Vec::with_capacity(own.len());
            for rule in own {
                let (made, report) = one(nodes, node, rule, &environments, &sized.shape);
                rules.size = rules.size.saturating_add(report.patterns);
                rules.patterns = rules.patterns.saturating_add(report.patterns);
                compiled.push(match rules.is_too_large() {
                    true => CompiledRule::failed(limits::too_large()),
                    false => made,
                });
            }
            let uses_old = compiled.iter().any(|rule| rule.uses_old);
            RuleSet { shape: sized.shape, rules: compiled.into(), uses_old }
        });
        rules.sets.insert((id, is_object), set);
    }
    let seen = |child: &NodeId| visible && shapes::is_visible(nodes, &nodes[child.0 as usize]);
    let properties = node.properties.iter().map(|property| property.node).filter(seen);
    for child in properties.chain(node.items).chain(node.rest.node()) {
        gather(nodes, counts, (child, nodes[child.0 as usize].is(Flags::EMBEDS)), rules);
    }
}

/// What rules can refer to.
struct Environments {
    plain: Environment,
    /// Where what was before may be nothing.
    optional: Environment,
}

impl Environments {
    fn new(shape: &Arc<Shape>) -> Environments {
        let base = Environment::new().with_shape(SELF, shape);
        let old = shape.type_of();
        Environments {
            plain: base.clone().with_shape(OLD_SELF, shape),
            optional: match old {
                Some(old) => base.with(OLD_SELF, Type::optional(old)),
                None => base,
            },
        }
    }
}

fn one(
    nodes: &[Node],
    node: &Node,
    rule: &Rule,
    environments: &Environments,
    shape: &Arc<Shape>,
) -> (CompiledRule, Report) {
    let mut compiled = CompiledRule::default();
    let mut report = Report::default();
    if rule.rule.trim().is_empty() {
        return (compiled, report);
    }
    let environment =
        if rule.optional_old_self == Some(true) { &environments.optional } else { &environments.plain };
    let wanted = (&Type::Bool, "compilation failed: ", "cel expression must evaluate to a bool");
    match program(environment, &rule.rule, wanted, shape) {
        Err(error) => {
            compiled.error = Some(error.as_str().into());
            report.error = Some(error);
            return (compiled, report);
        }
        Ok(made) => {
            report.cost = made.cost;
            report.patterns += made.program.patterns_size();
            report.uses_old_self = made.uses_old;
            compiled.uses_old = made.uses_old;
            compiled.program = Some(made.program);
        }
    }
    if !rule.message_expression.is_empty() {
        let wanted = (
            &Type::String,
            "messageExpression compilation failed: ",
            "messageExpression must evaluate to a string",
        );
        match program(environment, &rule.message_expression, wanted, shape) {
            Err(error) => {
                report.message_error = Some(error);
                return (compiled, report);
            }
            Ok(made) => {
                report.message_cost = Some(made.cost);
                report.patterns += made.program.patterns_size();
                compiled.message = Some(made.program);
            }
        }
    }
    if !rule.field_path.is_empty()
        && let Ok((path, _)) = field_path::follow(nodes, node, &rule.field_path, true)
    {
        compiled.field_path = path.to_string().into();
    }
    (compiled, report)
}

struct Made {
    program: Program,
    cost: u64,
    uses_old: bool,
}

fn program(
    environment: &Environment,
    text: &str,
    (wanted, failed, wrong): (&Type, &str, &str),
    shape: &Arc<Shape>,
) -> Result<Made, String> {
    let expression = environment.compile(text).map_err(|issues| format!("{failed}{issues}"))?;
    if expression.result_type() != wanted {
        return Err(wrong.to_owned());
    }
    let program = expression.program().map_err(|error| {
        let what = if wanted == &Type::Bool { "program" } else { "messageExpression" };
        format!("{what} instantiation failed: {error}")
    })?;
    Ok(Made { program, cost: expression.estimate(Some(shape)).max, uses_old: expression.uses(OLD_SELF) })
}
