"""The claims office's operations as named tools, one for each of its routes."""

from envos.envs.tools import Tool, key, text
from envos.envs.worlds.claims_words import REASONS

_CLAIM = key("claim_id", "Id of a claim, as list_claims gives it.")
_FOR = _CLAIM._replace(param="claim")
_POLICY = key("policy_id", "Id of a policy, as list_policies gives it.")
_DECISION = key("decision_id", "Id of a decision, as list_decisions gives it.")
_AMOUNT = "An amount, such as 3575.00."

TOOLS = (
    Tool("overview", "GET", "/", "Today's date, and how many records of each kind there are."),
    Tool(
        "list_claims",
        "GET",
        "/claims",
        "List the claims: claimant, policy, claimed amount, and status.",
        (
            text("status", "Only claims of this status.", required=False, choices=("open", "approved", "denied")),
            text("product", "Only claims on policies of this product.", required=False),
        ),
    ),
    Tool(
        "get_claim",
        "GET",
        "/claims/{id}",
        "Show one claim with its deductible, lines, documents and decisions.",
        (_CLAIM,),
    ),
    Tool(
        "list_policies",
        "GET",
        "/policies",
        "List the policy records: product, holder, reimbursement limit, and the date until which each is valid.",
        (text("product", "Only policies of this product.", required=False),),
    ),
    Tool(
        "get_policy",
        "GET",
        "/policies/{id}",
        "Show one policy record with its endorsements, and what has changed in it.",
        (_POLICY,),
    ),
    Tool(
        "get_policy_form",
        "GET",
        "/policies/{id}/edit",
        "Show the form that changes a policy record, with the brokers that can be chosen.",
        (_POLICY,),
    ),
    Tool(
        "edit_policy",
        "POST",
        "/policies/{id}/edit",
        "Change the reimbursement limit of a policy, or its broker.",
        (
            _POLICY,
            text("limit", f"The new limit. {_AMOUNT}", required=False),
            text("broker", "The new broker, as get_policy_form gives it.", required=False),
        ),
    ),
    Tool(
        "start_approval",
        "GET",
        "/approve/form",
        "Begin the approval of a claim: show what it claims and the deductible.",
        (_FOR,),
    ),
    Tool(
        "review_approval",
        "GET",
        "/approve/review",
        "Show the approval of a claim as it would be entered; gives the form_key that confirms it.",
        (_FOR, text("amount", f"The amount to approve. {_AMOUNT}")),
    ),
    Tool(
        "approve_claim",
        "POST",
        "/approve/review",
        "Approve a claim. The same form_key sent again enters nothing more.",
        (
            _FOR,
            text("amount", "The amount that was reviewed."),
            text("form_key", "The form_key that review_approval gave.", "key"),
        ),
    ),
    Tool(
        "start_denial",
        "GET",
        "/deny/form",
        "Begin the denial of a claim; gives the form_key that confirms it.",
        (_FOR,),
    ),
    Tool(
        "deny_claim",
        "POST",
        "/deny/form",
        "Deny a claim. The same form_key sent again enters nothing more.",
        (
            _FOR,
            text("form_key", "The form_key that start_denial gave.", "key"),
            text("reason", "Why it is denied.", choices=REASONS),
        ),
    ),
    Tool(
        "list_decisions",
        "GET",
        "/decisions",
        "List the decisions on all claims, the latest one last.",
        (text("outcome", "Only decisions of this outcome.", required=False, choices=("approved", "denied")),),
    ),
    Tool("get_decision", "GET", "/decisions/{id}", "Show one decision as it is stored.", (_DECISION,)),
    Tool(
        "get_amendment_form",
        "GET",
        "/decisions/{id}/amend",
        "Show the form that changes a decision.",
        (_DECISION,),
    ),
    Tool(
        "amend_decision",
        "POST",
        "/decisions/{id}/amend",
        "Change the amount of an approval, or the reason of a denial; the reference stays.",
        (
            _DECISION,
            text("amount", f"The new amount of an approval. {_AMOUNT}", required=False),
            text("reason", "The new reason of a denial.", required=False, choices=REASONS),
        ),
    ),
    Tool("withdraw_decision", "POST", "/decisions/{id}/withdraw", "Withdraw a decision.", (_DECISION,)),
)
