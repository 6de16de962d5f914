"""Mutation tests: would the tests notice faults in the code?"""
