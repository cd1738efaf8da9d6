# SPDX-License-Identifier: Apache-2.0
"""Shapes of authentication.k8s.io."""

PACKAGE = "io.k8s.api.authentication.v1"
GROUP = "authentication.k8s.io"

TEXT = """
TokenReview review  # Asks whose token this is.
  spec    TokenReviewSpec  !  # The question.
  status  TokenReviewStatus   # The answer.

TokenReviewSpec  # A question about a token.
  token      string  +         # The token.
  audiences  []string  atomic  # Audiences of the token.

TokenReviewStatus  # Whose token it is.
  authenticated  bool              # Whether the token is valid.
  user           UserInfo          # Whose it is.
  audiences      []string  atomic  # For whom it is valid.
  error          string            # Why it is not valid.

UserInfo  # Who a user is.
  username  string                             # Name.
  uid       string                             # Unique identity.
  groups    []string  atomic                   # Groups.
  extra     map[string]ExtraValue([]string)    # What the authenticator adds.

SelfSubjectReview review  # Asks who is asking.
  status  SelfSubjectReviewStatus  # The answer.

SelfSubjectReviewStatus  # The identity of the caller.
  userInfo  UserInfo  # The user.

TokenRequest review  # Asks for a token of a service account.
  spec    TokenRequestSpec  !  # What is wanted.
  status  TokenRequestStatus   # The token.

TokenRequestSpec  # What token is wanted.
  audiences          []string  !  atomic         # Who will be shown the token.
  expirationSeconds  *int64                      # How long it should be valid.
  boundObjectRef     *BoundObjectReference  =    # The token ends with this object.

TokenRequestStatus  # A token.
  token                string  !  # The token.
  expirationTimestamp  Time  !    # When it ends.

BoundObjectReference  # Names an object a token is bound to.
  kind        string             # Its kind.
  apiVersion  string             # Its API version.
  name        string             # Its name.
  uid         types.UID(string)  # Its UID.
"""
