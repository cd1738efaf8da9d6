# SPDX-License-Identifier: Apache-2.0
"""Shapes of authorization.k8s.io."""

PACKAGE = "io.k8s.api.authorization.v1"
GROUP = "authorization.k8s.io"

TEXT = """
SubjectAccessReview review  # Checks whether a user may perform an action.
  spec    SubjectAccessReviewSpec  !  # The question.
  status  SubjectAccessReviewStatus   # The answer.

SelfSubjectAccessReview review  # Asks whether the asker may do something.
  spec    SelfSubjectAccessReviewSpec  !  # The question.
  status  SubjectAccessReviewStatus       # The answer.

LocalSubjectAccessReview review  # Checks whether a user may perform an action in a namespace.
  spec    SubjectAccessReviewSpec  !  # The question.
  status  SubjectAccessReviewStatus   # The answer.

SelfSubjectAccessReviewSpec  # A question about the asker.
  resourceAttributes     *ResourceAttributes     # A request about a resource.
  nonResourceAttributes  *NonResourceAttributes  # A request about another path.

SubjectAccessReviewSpec  # The user and the action to check.
  resourceAttributes     *ResourceAttributes              # A request about a resource.
  nonResourceAttributes  *NonResourceAttributes           # A request about another path.
  user                   string                           # The user.
  groups                 []string  atomic                 # Groups of the user.
  extra                  map[string]ExtraValue([]string)  # What the authenticator added.
  uid                    string                           # Identity of the user.

ResourceAttributes  # A request about a resource.
  namespace      string                    # Its namespace; empty is all.
  verb           string                    # What is done.
  group          string                    # Its group; * is all.
  version        string                    # Its version; * is all.
  resource       string                    # The resource; * is all.
  subresource    string                    # The subresource.
  name           string                    # The object; empty is all.
  fieldSelector  *FieldSelectorAttributes  # The request is limited by fields.
  labelSelector  *LabelSelectorAttributes  # The request is limited by labels.

FieldSelectorAttributes  # A limit by fields.
  rawSelector   string                                  # As in a query.
  requirements  []meta.FieldSelectorRequirement  atomic  # As conditions.

LabelSelectorAttributes  # A limit by labels.
  rawSelector   string                                  # As in a query.
  requirements  []meta.LabelSelectorRequirement  atomic  # As conditions.

NonResourceAttributes  # A request about a path that is no resource.
  path  string  # The path.
  verb  string  # What is done.

SubjectAccessReviewStatus  # Whether a request is allowed.
  allowed          bool  !  # It is allowed.
  denied           bool     # It is refused for good.
  reason           string   # Why.
  evaluationError  string   # What went wrong on the way.

SelfSubjectRulesReview review  # Asks what the asker may do in a namespace.
  spec    SelfSubjectRulesReviewSpec  !  # The question.
  status  SubjectRulesReviewStatus       # The answer.

SelfSubjectRulesReviewSpec  # A question about a namespace.
  namespace  string  # The namespace.

SubjectRulesReviewStatus  # The rules that apply to the user.
  resourceRules     []ResourceRule  !  atomic     # On resources.
  nonResourceRules  []NonResourceRule  !  atomic  # On other paths.
  incomplete        bool  !                       # Whether there may be more.
  evaluationError   string                        # What went wrong on the way.

ResourceRule  # What may be done on resources.
  verbs          []string  !  atomic  # What is allowed.
  apiGroups      []string  atomic     # On these groups.
  resources      []string  atomic     # On these resources.
  resourceNames  []string  atomic     # On these objects only.

NonResourceRule  # What may be done on other paths.
  verbs            []string  !  atomic  # What is allowed.
  nonResourceURLs  []string  atomic     # On these paths.
"""
