# SPDX-License-Identifier: Apache-2.0
"""Shapes of events.k8s.io: another view of the core group's events."""

PACKAGE = "io.k8s.api.events.v1"
GROUP = "events.k8s.io"

TEXT = """
Event kind  # Something that happened to an object.
  eventTime                 MicroTime  !           # When the event was first seen.
  series                    *EventSeries           # The series this event belongs to, if any.
  reportingController       string                 # The controller that reports.
  reportingInstance         string                 # Which copy of the controller.
  action                    string                 # What was done about the object.
  reason                    string                 # Why, in one word.
  regarding                 core.ObjectReference   # The object the event is about.
  related                   *core.ObjectReference  # A second object that takes part.
  note                      string                 # Details for people.
  type                      string                 # Normal or Warning.
  deprecatedSource          core.EventSource       # Who reports, in the core group's form.
  deprecatedFirstTimestamp  Time                   # First time, in the core group's form.
  deprecatedLastTimestamp   Time                   # Last time, in the core group's form.
  deprecatedCount           int32                  # Count, in the core group's form.

EventSeries  # Repetitions of an event.
  count             int32  !      # How often so far.
  lastObservedTime  MicroTime  !  # When it was last seen.
"""
